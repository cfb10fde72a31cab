"""Models of a width that nobody trained, with the translations of one that somebody did: for the time of a search.

That time depends on the sizes of a model and on the tokens that it finds, and not on its weights. So the wide model computes the narrow
one's function: each number of a state stands there several times (Net2WiderNet, Chen, Goodfellow and Shlens, 2016, "Net2Net").
"""

import copy

import torch

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.layers import sinusoids
from vaswani_transformer.parallel_heads import ParallelHeads

WIDTHS = ("d_model", "encoder_ffn_dim", "decoder_ffn_dim", "encoder_attention_heads", "decoder_attention_heads")


def widened(model: VaswaniForConditionalGeneration, times: int) -> VaswaniForConditionalGeneration:
    """A model `times` as wide that gives the same scores, but for rounding; heads stay as wide as they are, and there are more of them.

    Its positions are a table, since the sinusoids of a wide model do not repeat those of a narrow one.

    Raises:
        ValueError: `model` has parallel heads that propose all at once, or embeddings that are not tied and scaled.
    """
    narrow = model.config
    if not (narrow.tie_word_embeddings and narrow.scale_embedding and narrow.target_vocab_size is None):
        raise ValueError("Only models with tied and scaled embeddings can be widened.")
    if isinstance(model.parallel_heads, ParallelHeads):
        raise ValueError("Heads that propose all at once cannot be widened; chained ones can.")
    config = copy.deepcopy(narrow)
    for name in WIDTHS:
        setattr(config, name, times * getattr(narrow, name))
    config.position_embedding_type = "learned"
    wide = VaswaniForConditionalGeneration(config).to(model.dtype).eval()
    found, given = wide.state_dict(), model.state_dict()
    for name in found.keys() - given.keys():  # the positions
        given[name] = sinusoids(torch.arange(config.max_position_embeddings), narrow.d_model, narrow.sinusoidal_layout)
    wide.load_state_dict({name: repeated(name, given[name], times, config.decoder_layers) for name in found})
    wide.generation_config = copy.deepcopy(model.generation_config)
    return wide


def repeated(name: str, part: torch.Tensor, times: int, decoder_layers: int) -> torch.Tensor:
    """The weight or bias `part` for states in which each number stands `times` times.

    The square root of d_model scales embeddings (section 3.4), and grows by the square root of `times`. Embeddings are that much smaller,
    and so are the states that they are multiplied by for the scores, `times` times.
    """
    smaller = times**-0.5
    if name.endswith(("shared.weight", "embed_tokens.weight", "lm_head.weight")):
        return part.repeat(1, times) * smaller
    if name.endswith("embed_positions.weight"):
        return part.repeat(1, times)
    if name.endswith("lm_head.bias"):
        return part
    if name == "parallel_heads.token_proj.weight":  # states are smaller already, and embeddings are not
        of_states, of_tokens = part.chunk(2, dim=1)
        return torch.cat((of_states.repeat(times, times), of_tokens.repeat(times, times) * smaller), dim=1) / times
    gives_states = (f"model.decoder.layers.{decoder_layers - 1}.final_layer_norm", "parallel_heads.final_layer_norm")
    whole = part.repeat(times, times) / times if part.ndim == 2 else part.repeat(times)
    return whole * smaller if name.startswith((*gives_states, "parallel_heads.token_proj")) else whole


__all__ = ["widened"]
