"""The architecture of "Attention Is All You Need" as a declarative configuration.

Each row of the paper's Table 3 is one of these.
"""

import copy
import difflib
from dataclasses import fields
from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

PAPER_SEARCH: dict[str, Any] = {
    "num_beams": 4,
    "length_penalty": 0.6,
    "length_penalty_type": "gnmt",
    "extra_length": 50,
}
"""What the paper searched with, as entries of a `GenerationConfig`."""

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {
        "d_model": 128,
        "encoder_layers": 4,
        "decoder_layers": 4,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 256,
        "decoder_ffn_dim": 256,
    },
    "base": {},
    "big": {
        "d_model": 1024,
        "encoder_attention_heads": 16,
        "decoder_attention_heads": 16,
        "encoder_ffn_dim": 4096,
        "decoder_ffn_dim": 4096,
        "dropout": 0.3,
    },
}
"""Table 3's `base` and `big`, and a `tiny` one for small corpora (4+4 layers of 128 with 256 inside)."""

ENCODER = "VaswaniEncoderModel"

PROBLEM_TYPES = ("regression", "single_label_classification", "multi_label_classification")
"""What labels of whole texts may be, by transformers' names."""

TASKS_IN_FOLDER = {
    "AutoModelForTextEncoding": f"modeling_tasks.{ENCODER}",
    "AutoModelForMaskedLM": "modeling_tasks.VaswaniForMaskedLM",
    "AutoModelForSequenceClassification": "modeling_tasks.VaswaniForSequenceClassification",
    "AutoModelForTokenClassification": "modeling_tasks.VaswaniForTokenClassification",
    "AutoModelForQuestionAnswering": "modeling_tasks.VaswaniForQuestionAnswering",
}
"""The models on the encoder alone, for which a translator's folder and their own folders serve."""

AUTO_MAP = {
    "AutoConfig": "configuration_vaswani.VaswaniConfig",
    "AutoModel": "modeling_vaswani.VaswaniModel",
    "AutoModelForSeq2SeqLM": "modeling_vaswani.VaswaniForConditionalGeneration",
    **TASKS_IN_FOLDER,
}
"""Written into config.json: where a saved folder has its own code, for use under `trust_remote_code=True`."""

PIPELINES_IN_FOLDER: dict[str, dict[str, Any]] = {
    "translation": {"impl": "pipeline_translation.TranslationPipeline", "pt": ["AutoModelForSeq2SeqLM"]},
    "summarization": {"impl": "pipeline_text_to_text.SummarizationPipeline", "pt": ["AutoModelForSeq2SeqLM"]},
    "text2text-generation": {"impl": "pipeline_text_to_text.Text2TextGenerationPipeline", "pt": ["AutoModelForSeq2SeqLM"]},
    "question-answering": {"impl": "pipeline_question_answering.QuestionAnsweringPipeline", "pt": ["AutoModelForQuestionAnswering"]},
}
"""The same for the pipelines that transformers 5 does not have."""


@strict
class VaswaniConfig(PreTrainedConfig):
    """Configuration of a post-LayerNorm encoder-decoder; the defaults are the paper's base model.

    Args:
        vocab_size: entries of the one vocabulary that source and target share, or of the source's.
        target_vocab_size: entries of the target's vocabulary where it has one, and embeddings, of its own;
            `None` where both share.
        d_model: width of every layer's input and output; an even number where positions are sinusoids.
        encoder_layers: N of the encoder.
        decoder_layers: N of the decoder.
        encoder_attention_heads: h of the encoder.
        decoder_attention_heads: h of the decoder.
        encoder_ffn_dim: d_ff of the encoder.
        decoder_ffn_dim: d_ff of the decoder.
        head_dim: d_k, width of a query or key; `None` means d_model / h.
        value_head_dim: d_v, width of a value; `None` means `head_dim`.
        dropout: rate on the sum of embedding and position and on each sub-layer's output (section 5.4).
        attention_dropout: rate on the attention weights; the paper has none.
        activation_dropout: rate inside the feed-forward network; the paper has none.
        activation_function: name of the feed-forward network's nonlinearity.
        attention_bias: whether the four projections of an attention have biases; the paper writes none.
        attention_score: how a query and a key give a score: `"scaled_dot_product"` (equation 1), `"dot_product"` without the factor
            1 / sqrt(d_k), or `"additive"`, a feed-forward network with one hidden layer of d_k units a head (section 3.2.1).
        attention_window: r, the positions that self-attention sees around each one, itself included (section 4): r // 2 before it and
            (r - 1) // 2 after it in the encoder, and the last r in the decoder; `None` means all.
        residual_connections: whether each sub-layer's output is added to its input (section 3.1).
        layer_norm_eps: the epsilon of every layer normalisation.
        position_embedding_type: `"sinusoidal"` (section 3.5) or `"learned"` (Table 3, row E).
        sinusoidal_layout: `"interleaved"` as the paper prints it; `"concatenated"`, the same frequencies with
            all sines before all cosines (Marian); `"tensor2tensor"`, concatenated, with frequencies that end
            at exactly 1/10000 (tensor2tensor, fairseq).
        position_offset: number of the first position.
        max_position_embeddings: size of the learned position table. Sinusoids have no such limit.
        scale_embedding: whether embeddings are multiplied by sqrt(d_model) (section 3.4).
        use_cache: whether the decoder keeps keys and values for the next step.
        tie_word_embeddings: one matrix for source, target and softmax (section 3.4), or for target and softmax
            where the target has a vocabulary of its own; three otherwise.
        lm_head_bias: whether the map before the softmax adds a number to each token's score; the paper's does not.
        decoder_start_token_id: the decoder's first input.
        parallel_heads: k, the tokens proposed in one step of blockwise parallel decoding, the decoder's own one included; at 1, the
            paper's model, there are no heads.
        chained_heads: whether each of them also sees the token before its own, and the source.
        classifier_dropout: rate before the map to classes of `VaswaniForSequenceClassification` and `VaswaniForTokenClassification`;
            `None` means `dropout`.
        classifier_pooling: what stands for a text in `VaswaniForSequenceClassification`: `"mean"`, the mean of the encoder's states at its
            tokens, or `"last"`, the state at the last one, `</s>`.

    Raises:
        ValueError: the settings contradict each other; the sentence says which and what to change.
    """

    model_type = "vaswani"
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012 (the base class adds lists)
    attribute_map = {  # noqa: RUF012 (the base class's declaration)
        "hidden_size": "d_model",
        "num_attention_heads": "encoder_attention_heads",
        "num_hidden_layers": "encoder_layers",
    }

    vocab_size: int = 37_000
    target_vocab_size: int | None = None
    d_model: int = 512
    encoder_layers: int = 6
    decoder_layers: int = 6
    encoder_attention_heads: int = 8
    decoder_attention_heads: int = 8
    encoder_ffn_dim: int = 2048
    decoder_ffn_dim: int = 2048
    head_dim: int | None = None
    value_head_dim: int | None = None
    dropout: float | int = 0.1
    attention_dropout: float | int = 0.0
    activation_dropout: float | int = 0.0
    activation_function: str = "relu"
    attention_bias: bool = False
    attention_score: Literal["scaled_dot_product", "dot_product", "additive"] = "scaled_dot_product"
    attention_window: int | None = None
    residual_connections: bool = True
    layer_norm_eps: float = 1e-6
    position_embedding_type: Literal["sinusoidal", "learned"] = "sinusoidal"
    sinusoidal_layout: Literal["interleaved", "concatenated", "tensor2tensor"] = "interleaved"
    position_offset: int = 0
    max_position_embeddings: int = 1024
    scale_embedding: bool = True
    use_cache: bool = True
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = True
    lm_head_bias: bool = False
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = 1
    parallel_heads: int = 1
    chained_heads: bool = False
    classifier_dropout: float | int | None = None
    classifier_pooling: Literal["mean", "last"] = "mean"

    def __post_init__(self, **kwargs: Any) -> None:
        kwargs.pop("custom_pipelines", None)  # config.json has it; here it is the property below
        if self.head_dim is None:
            self.head_dim = self._default_head_dim()
        if self.value_head_dim is None:
            self.value_head_dim = self.head_dim
        super().__post_init__(**kwargs)
        self.name_encoder()
        # `@strict` calls it too, but buries the sentence in an error of its own.
        self.validate_architecture()

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> "VaswaniConfig":
        """The configuration `"tiny"`, `"base"` or `"big"`, with `overrides` on top.

        Raises:
            ValueError: there is no such preset, or no such setting.
        """
        if name not in PRESETS:
            raise ValueError(f"There is no preset {name!r}; choose one of {', '.join(PRESETS)}.")
        known = {field.name for field in fields(cls)} | {"num_labels"}  # a property of every configuration, as well as an argument
        for key in overrides.keys() - known - cls.attribute_map.keys():
            nearest = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean `{nearest[0]}`?" if nearest else "."
            raise ValueError(f"{cls.__name__} has no setting `{key}`{hint}")
        return cls(**{**PRESETS[name], **overrides})

    @property
    def decoder_entries(self) -> int:
        """Entries of the vocabulary that the decoder reads and writes."""
        return self.vocab_size if self.target_vocab_size is None else self.target_vocab_size

    @property
    def most_positions(self) -> int | None:
        """The most tokens that a text may have: the entries of the learned table of positions, or no limit with sinusoids."""
        return self.max_position_embeddings if self.position_embedding_type == "learned" else None

    @property
    def has_one_embedding(self) -> bool:
        """Whether source, target and softmax share one matrix."""
        return self.tie_word_embeddings and self.target_vocab_size is None

    def for_encoder(self) -> "VaswaniConfig":
        """The same architecture without a decoder."""
        return self._with_decoder(False)

    def for_translator(self) -> "VaswaniConfig":
        """The same architecture with a decoder."""
        return self._with_decoder(True)

    def _with_decoder(self, has_decoder: bool) -> "VaswaniConfig":
        """This object if it says so already, and otherwise a copy that does."""
        if self.is_encoder_decoder == has_decoder:
            return self
        config = copy.deepcopy(self)
        config.is_encoder_decoder = has_decoder
        config.name_encoder()
        return config

    def name_encoder(self) -> None:
        """`AutoModel` has two classes of ours to choose from, and takes the one that is named here, or else the encoder-decoder."""
        named: list[str] = vars(self).get("architectures") or []
        others = [name for name in named if name != ENCODER]
        self.architectures = others if self.is_encoder_decoder else [*others, ENCODER]

    @property
    def custom_pipelines(self) -> dict[str, Any]:
        """The folder's own pipeline, for code that was loaded from that folder; else nothing.

        transformers refuses a config that names a pipeline unless `trust_remote_code=True`, even where the
        package has registered the task.
        """
        is_loaded_from_folder = __name__.startswith("transformers_modules.")
        return self._pipelines_in_folder() if is_loaded_from_folder else {}

    def _pipelines_in_folder(self) -> dict[str, Any]:
        """One, so that `pipeline` knows the task without being told: what `task_specific_params` names, and else translation.

        Without a decoder, there is one for question answering only; transformers has those of the other tasks.
        """
        named: list[str] = vars(self).get("architectures") or []
        if self.is_encoder_decoder:
            stored = getattr(self, "task_specific_params", None) or {}
            tasks = [task for task in stored if task in ("summarization", "text2text-generation")] or ["translation"]
        else:
            tasks = ["question-answering"] if any(name.endswith("ForQuestionAnswering") for name in named) else []
        return {task: copy.deepcopy(PIPELINES_IN_FOLDER[task]) for task in tasks}

    def to_dict(self) -> dict[str, Any]:
        auto_map = AUTO_MAP if self.is_encoder_decoder else {**AUTO_MAP, "AutoModel": f"modeling_tasks.{ENCODER}"}
        return {**super().to_dict(), "auto_map": dict(auto_map), "custom_pipelines": self._pipelines_in_folder()}

    def validate_architecture(self) -> None:
        """Part of `@strict` validation: checks across fields."""
        self._check_sizes()
        self._check_token_ids()
        for name in ("dropout", "attention_dropout", "activation_dropout", "classifier_dropout"):
            if not 0 <= (getattr(self, name) or 0) < 1:
                raise ValueError(f"`{name}` is a probability below 1, not {getattr(self, name)}.")
        if self.problem_type not in (None, *PROBLEM_TYPES):
            raise ValueError(f"`problem_type` is {self.problem_type!r}; it is one of {', '.join(PROBLEM_TYPES)}, or None.")
        if not self.layer_norm_eps > 0:
            raise ValueError(f"`layer_norm_eps` must be above 0, not {self.layer_norm_eps}.")
        if self.position_offset < 0:
            raise ValueError(f"`position_offset` must be at least 0, not {self.position_offset}.")
        if self.position_embedding_type == "sinusoidal" and self.d_model % 2:
            raise ValueError(
                "Sinusoidal positions pair sines with cosines and need an even `d_model`, not "
                f'{self.d_model}; make it even or set `position_embedding_type="learned"`.'
            )

    def _check_sizes(self) -> None:
        stacks = [f"{side}_{part}" for side in ("encoder", "decoder") for part in ("layers", "attention_heads", "ffn_dim")]
        for name in (
            "vocab_size",
            "target_vocab_size",
            "d_model",
            *stacks,
            "head_dim",
            "value_head_dim",
            "max_position_embeddings",
            "attention_window",
            "parallel_heads",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be at least 1, not {value}.")

    def _check_token_ids(self) -> None:
        entries = min(self.vocab_size, self.decoder_entries)
        for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
            value = getattr(self, name)
            for token in value if isinstance(value, list) else [value]:
                if token is not None and not 0 <= token < entries:
                    raise ValueError(f"`{name}` is {token}, but the vocabulary has the ids 0 to {entries - 1}; change it or `vocab_size`.")

    def _default_head_dim(self) -> int:
        heads = self.encoder_attention_heads
        if heads != self.decoder_attention_heads:
            raise ValueError(
                f"The encoder has {heads} heads and the decoder {self.decoder_attention_heads}, so their "
                "width has no common default; set `head_dim`."
            )
        if heads < 1 or self.d_model % heads:
            raise ValueError(
                f"{heads} attention heads do not divide `d_model` = {self.d_model} evenly; change one of them or set `head_dim`."
            )
        return self.d_model // heads


__all__ = ["PRESETS", "VaswaniConfig"]
