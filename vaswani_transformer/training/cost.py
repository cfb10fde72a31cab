"""The cost of a training in floating point operations."""

from ..configuration_vaswani import VaswaniConfig


def training_flops(
    config: VaswaniConfig,
    sentences: int,
    source_length: int,
    target_length: int,
    target_tokens: int,
    heads_only: bool = False,
    labels: int | None = None,
) -> float:
    """Floating point operations of one micro-batch, forward and backward, estimated by counting matrix products.

    A product with a weight matrix of P entries costs 2 * P a position, attention 2 * H * (d_k + d_v) a pair of positions, and the backward
    pass twice the forward pass, so 6 in all:

        6 * (encoder layers * (S * P_enc + S^2 * A_enc) + decoder layers * (T * P_dec + S * P_cross + (T^2 + T * S) * A_dec)) * sentences
          + 6 * target vocabulary * d_model * target tokens

    with S and T the padded lengths, A = H * (d_k + d_v), P_enc = 2 * d_model * (A_enc + d_ff) and so on. With an `attention_window` of r,
    S * min(S, r) and T * min(T, r) take the place of the squares. Padding inside a batch is computed and so counted; only the projection
    to the vocabulary leaves it out. Parallel heads add their two products and the projection of what they propose. Not counted:
    normalisation, softmax, activations, optimizer.

    Args:
        config: the architecture.
        sentences: pairs in the micro-batch.
        source_length: tokens of the longest source.
        target_length: tokens of the longest target.
        target_tokens: real target tokens.
        heads_only: only the parallel heads are trained, so the rest has no backward pass; nor do the projection's weights get
            a gradient, nor the decoder's states.
        labels: of a model that is the encoder and a map to so many labels; there is no decoder, and the map takes the place of the
            projection.
    """
    assert config.head_dim is not None and config.value_head_dim is not None  # the configuration resolves them
    heads_width = config.head_dim + config.value_head_dim
    encoder_heads, decoder_heads = (heads * heads_width for heads in (config.encoder_attention_heads, config.decoder_attention_heads))
    # Self-attention has a query and a key of d_k, a value and an output of d_v: 2 * A. The decoder's attention over the source adds query
    # and output, A; its keys and values work on source positions.
    encoder_weights = config.d_model * (2 * encoder_heads + 2 * config.encoder_ffn_dim)
    decoder_weights = config.d_model * (3 * decoder_heads + 2 * config.decoder_ffn_dim)
    cross_weights = config.d_model * decoder_heads
    near_source, near_target = (min(length, config.attention_window or length) for length in (source_length, target_length))
    encoder = config.encoder_layers * (source_length * encoder_weights + source_length * near_source * encoder_heads)
    if labels is not None:
        return 6.0 * (sentences * encoder + labels * config.d_model * target_tokens)
    decoder = config.decoder_layers * (
        target_length * decoder_weights + source_length * cross_weights + target_length * (near_target + source_length) * decoder_heads
    )
    projection = config.decoder_entries * config.d_model
    if config.parallel_heads == 1:
        return 6.0 * (sentences * (encoder + decoder) + projection * target_tokens)
    # A target of T tokens has T - 1 that are 2 ahead, T - 2 that are 3 ahead and so on
    proposed = projection * sum(max(target_tokens - step * sentences, 0) for step in range(1, config.parallel_heads))
    of_heads, frozen_inputs = _of_heads(config, sentences, source_length, target_length, target_tokens)
    if heads_only:
        return 2.0 * sentences * (encoder + decoder) + 6.0 * (of_heads + proposed) - 2.0 * (proposed + frozen_inputs)
    return 6.0 * (sentences * (encoder + decoder) + projection * target_tokens + of_heads + proposed)


def _of_heads(config: VaswaniConfig, sentences: int, source_length: int, target_length: int, target_tokens: int) -> tuple[float, float]:
    """Multiplications of the parallel heads without the projection, and how many of them are by what a frozen model computed."""
    heads, d_model, ffn_dim = config.parallel_heads - 1, config.d_model, config.decoder_ffn_dim
    if not config.chained_heads:
        first = heads * ffn_dim * d_model * target_tokens
        return first * (1 + heads), first
    assert config.head_dim is not None and config.value_head_dim is not None  # the configuration resolves them
    attention = config.decoder_attention_heads * (config.head_dim + config.value_head_dim)
    rows = [sentences * max(target_length - step, 0) for step in range(1, heads + 1)]
    source = sentences * source_length * d_model * attention * sum(each > 0 for each in rows)
    weights = d_model * (2 * d_model + attention + 2 * ffn_dim)
    return sum(rows) * (weights + source_length * attention) + source, rows[0] * 2 * d_model**2 + source


def translation_flops(config: VaswaniConfig, sentences: int, source_length: int, target_length: int, beams: int = 4) -> float:
    """Floating point operations of a search, counted as those of a training, but forward only.

    The encoder and the keys and values of the source are computed once a sentence, all else for each hypothesis and each token it gets:

        2 * sentences * (encoder layers * (S * P_enc + S^2 * A_enc) + decoder layers * S * P_cross
          + beams * (decoder layers * (T * P_dec + (T * (T + 1) / 2 + T * S) * A_dec) + T * target vocabulary * d_model))

    With an `attention_window`, a token sees no more than that.

    Args:
        config: the architecture.
        sentences: texts to translate.
        source_length: tokens of the longest.
        target_length: tokens that the search makes.
        beams: hypotheses of a sentence.
    """
    # A training's count is three times that of a forward pass, and in it each token sees as many targets as the last one does.
    encoder = training_flops(config, 1, source_length, 0, 0) / 3
    decoder = training_flops(config, 1, source_length, target_length, target_length) / 3 - encoder
    near = min(target_length, config.attention_window or target_length)
    assert config.head_dim is not None and config.value_head_dim is not None  # the configuration resolves them
    heads = config.decoder_attention_heads * (config.head_dim + config.value_head_dim)
    unseen = 2 * config.decoder_layers * heads * near * (near - 1) / 2
    return sentences * (encoder + beams * (decoder - unseen))
