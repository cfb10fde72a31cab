"""One experiment as frozen dataclasses, read from YAML.

A recipe owns the data, the tokenizer, the batches, the optimisation and the search of a run. It only names the
architecture: `model` goes to `VaswaniConfig`, and `config.json` holds it from then on. An unknown key is an error that
names the nearest valid one.
"""

import dataclasses
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from huggingface_hub.errors import StrictDataclassError

from .configuration_vaswani import PAPER_SEARCH, PRESETS, VaswaniConfig
from .copied_items import wanted_classes
from .data.sources import AnyCorpus
from .data.sources.corpus import Corpus, require_language_code
from .licences import Licences, licences_of
from .run_folder import RunFolder
from .search_settings import LONGEST_ANSWER, LONGEST_QUESTION
from .shipped_recipes import shipped_recipes
from .strict_yaml import apply_override, parse, plain, read_mapping, require_above_zero, require_at_least, unknown_key, unknown_value
from .tasks import MARKING, TASKS, Task, TaskName

_RATES_OF_DROPOUT = ("dropout", "attention_dropout", "activation_dropout")
_LAYERS = ("encoder_layers", "decoder_layers")
_OF_A_HEAD: dict[str, tuple[TaskName, ...]] = {
    "classifier_dropout": ("classification", "tagging"),
    "classifier_pooling": ("classification",),
}
"""Fields of the configuration that say how a model is read, and not what the encoder is; and the tasks whose models are read so."""
_BESIDE_A_PAIR = 2
"""Tokens that a tokenizer adds to two texts: `</s>` after each."""
_EPOCHS, _UPDATES = "`training.epochs`", "`training.updates`"
_TOKENS = "`batching.source_tokens` and `batching.target_tokens`, in tokens of an update over all devices"
_RATE = "`training.learning_rate_scale`, which multiplies the paper's schedule"
_MICRO_BATCHES = "`batching.micro_batches`, into which an update is cut"
_SYNONYMS = {
    **dict.fromkeys(("max_epochs", "num_epochs", "n_epochs", "num_train_epochs"), _EPOCHS),
    **dict.fromkeys(("steps", "max_steps", "train_steps", "num_steps", "max_updates", "iterations", "max_iterations"), _UPDATES),
    **dict.fromkeys(("batch_size", "batch_tokens", "max_tokens", "per_device_train_batch_size", "tokens_per_batch"), _TOKENS),
    **dict.fromkeys(("lr", "learning_rate", "max_lr", "peak_lr"), _RATE),
    **dict.fromkeys(("warmup", "warmup_steps", "lr_warmup"), "`training.warmup_updates`"),
    **dict.fromkeys(("cooldown", "cooldown_updates", "lr_decay", "lr_scheduler_type"), "`training.cooldown_share`, a share of all updates"),
    **dict.fromkeys(("accumulation", "accum_count", "update_freq", "gradient_accumulation_steps"), _MICRO_BATCHES),
    **dict.fromkeys(("max_length", "max_len", "max_seq_len", "max_source_length"), "`batching.max_sentence_tokens`"),
    **dict.fromkeys(("fp16", "bf16", "amp", "mixed_precision"), "`training.precision`"),
    **dict.fromkeys(("clip_norm", "max_grad_norm", "gradient_clipping"), "`training.max_gradient_norm`"),
    **dict.fromkeys(("eval_steps", "valid_steps", "validation_interval"), "`training.validate_every`"),
    **dict.fromkeys(("save_steps", "save_interval", "checkpoint_interval"), "`training.checkpoint_every`"),
    **dict.fromkeys(("beam", "beams", "beam_size"), "`search.num_beams`"),
    **dict.fromkeys(("layers", "num_layers"), "`model.encoder_layers` and `model.decoder_layers`"),
    **dict.fromkeys(("heads", "num_heads"), "`model.encoder_attention_heads` and `model.decoder_attention_heads`"),
    **dict.fromkeys(("hidden_size", "embed_dim", "embedding_dim"), "`model.d_model`"),
    **dict.fromkeys(("ffn_dim", "ff_size", "intermediate_size"), "`model.encoder_ffn_dim` and `model.decoder_ffn_dim`"),
    **dict.fromkeys(("dropout", "dropout_rate"), "`model.dropout`"),
    **dict.fromkeys(("src", "src_lang", "source_lang"), "`source_language`"),
    **dict.fromkeys(("tgt", "tgt_lang", "target_lang"), "`target_language`"),
}
"""Other toolkits' names of settings, and their keys here."""

CheckpointMetric = Literal["bleu", "loss", "rougeL", "rouge1", "rouge2", "exact_match", "f1", "accuracy", "macro_f1", "entity_f1"]
"""The score by which validations are ranked."""

Precision = Literal["float32", "bfloat16", "float16"]
"""What the products of a training are computed in."""


@dataclass(frozen=True)
class CleaningSettings:
    """Which training pairs are dropped. Lengths count words (or characters where a script has no spaces)."""

    max_words: int = 250
    max_length_ratio: float = 9.0
    drop_duplicates: bool = True
    drop_identical_sides: bool = True
    drop_held_out: bool = True

    def __post_init__(self) -> None:
        require_at_least(self, 1, "max_words", "max_length_ratio")


@dataclass(frozen=True)
class DistillationSettings:
    """Train on a teacher's translations of the training sources: sequence-level knowledge distillation (Kim and Rush, 2016, section 3.2).

    `teacher` is the folder of a translator, or a repository of the Hub; any that `vaswani translate` runs in PyTorch. Between it and the
    student passes text, so their vocabularies may differ.

    The teacher searches with `num_beams` beams, by default as many as it does by itself, and keeps the `best` candidates: each makes a
    pair. With `closest`, only that one of them makes a pair which is nearest to the reference by sentence BLEU (their section 3.3).
    `keep_original` trains on the original pairs as well.

    `dtype` is what the teacher computes in; on a CPU, `int8` and `bfloat16` are the fastest, and by default it is `float32`. A CPU
    without products in bfloat16 takes `float32` for it, and says so. A batch has `batch_tokens` source tokens. A source of more than
    `max_source_tokens` is left out.
    """

    teacher: str
    num_beams: int | None = None
    best: int = 1
    closest: bool = False
    keep_original: bool = False
    dtype: Literal["float32", "bfloat16", "float16", "int8"] | None = None
    batch_tokens: int = 4096
    max_source_tokens: int = 1024

    def __post_init__(self) -> None:
        require_at_least(self, 1, "num_beams", "best", "batch_tokens", "max_source_tokens")
        if self.num_beams is not None and self.best > self.num_beams:
            raise ValueError(f"the {self.best} best candidates need as many beams, and `num_beams` is {self.num_beams}; ask for more.")
        if self.closest and self.best == 1:
            raise ValueError("`closest` chooses among several candidates; set `best`, to 5 for instance.")


@dataclass(frozen=True)
class DataSettings:
    """The corpora of an experiment.

    Relative file names start at `root`, which itself starts at the folder of the recipe (see `load_recipe`). `validation` may be several,
    one for each target language. `licence` is that of each training corpus that names none of its own.
    With `distillation`, a teacher's translations take the place of the training corpora's target sides.

    `labels`, for tasks that have them, names the labels: `{"0": negative, "1": positive}` reads a 0 as `negative`, and any other label is
    an error. By default the labels are those of the training text, by their own names.
    """

    train: tuple[AnyCorpus, ...]
    validation: AnyCorpus | tuple[AnyCorpus, ...]
    test: dict[str, AnyCorpus]
    root: str = "."
    licence: str = "unknown"
    cleaning: CleaningSettings = CleaningSettings()
    distillation: DistillationSettings | None = None
    labels: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.train or not self.validations:
            raise ValueError("`train` and `validation` need a corpus each; add them to the recipe.")
        for number, spec in enumerate(self.train):
            if spec.remark is not None:
                raise ValueError(f"`train[{number}].remark` is for a score, and training text gets none; write it to a test set.")
        for split, specs in self.by_split.items():
            if split != "train" and any(spec.licence or spec.attribution for spec in specs):
                raise ValueError(f"`{split}` names a licence, but only training text is in the weights; leave it out there.")

    @property
    def licences(self) -> Licences:
        """What the training corpora state about their licences."""
        return licences_of(self.train, self.licence)

    @property
    def validations(self) -> tuple[Corpus, ...]:
        """`validation`, whether it is one corpus or several."""
        return (self.validation,) if isinstance(self.validation, Corpus) else self.validation

    @property
    def by_split(self) -> dict[str, tuple[Corpus, ...]]:
        """All corpora, by the names `train`, `validation` and `test.NAME`."""
        tests = {f"test.{name}": (spec,) for name, spec in self.test.items()}
        return {"train": self.train, "validation": self.validations, **tests}


@dataclass(frozen=True)
class TokenizerSettings:
    """The joint byte-level BPE (paper section 5.1).

    `train` learns it from the training pairs. If the model starts from a checkpoint (`init_from`), `keep` uses the
    checkpoint's tokenizer, and `extend` adds entries to it until there are `vocab_size`.

    `bpe_dropout` leaves out each merge with this probability (Provilkov et al., 2020, take 0.1), so that every epoch cuts the words of the
    training pairs in another way. Sentences have more tokens, and a model learns more slowly, so it needs a long training to pay.
    Validation, tests and translation always use the plain segmentation.
    """

    vocab_size: int | None = None
    min_frequency: int = 2
    method: Literal["train", "keep", "extend"] = "train"
    bpe_dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.vocab_size is None and self.method != "keep":
            raise ValueError(f"`vocab_size` is missing, which `method: {self.method}` needs; add it to the recipe.")
        require_at_least(self, 1, "vocab_size", "min_frequency")
        if not 0 <= self.bpe_dropout < 1:
            raise ValueError(f"`bpe_dropout` must lie between 0 and 1 (excluded), not {self.bpe_dropout}.")


@dataclass(frozen=True)
class BatchingSettings:
    """How many tokens one optimisation update sees.

    `source_tokens` and `target_tokens` count padded tokens of one update over ALL ranks (paper section 5.1: about 25,000
    each). The update is cut into `micro_batches` equal shares, which the ranks divide among themselves and accumulate. Eight
    devices take one each, one device takes eight after another, and the result is the same. `None` makes one for each rank that starts
    the run, and the run keeps that number.

    A micro-batch holds sentences of about one length. `mixed_lengths` cuts the micro-batches of an epoch into `micro_batches` classes of
    length and gives every update one of each, so that all updates see the same mix of lengths; otherwise an update holds random ones.

    From the n_l pairs of each target language l, an epoch draws a number in proportion to n_l^(1 / `temperature`): at 1 every pair once,
    far above 1 nearly the same number for each language.
    """

    source_tokens: int = 25_000
    target_tokens: int = 25_000
    micro_batches: int | None = None
    max_sentence_tokens: int = 256
    temperature: float = 1.0
    mixed_lengths: bool = False

    def __post_init__(self) -> None:
        require_at_least(self, 1, "source_tokens", "target_tokens", "micro_batches", "max_sentence_tokens")
        require_at_least(self, 1, "temperature")
        if self.mixed_lengths and self.micro_batches == 1:
            raise ValueError(
                "`mixed_lengths` gives an update micro-batches of different lengths, and `micro_batches` is 1; raise it to 2 or more."
            )


@dataclass(frozen=True)
class TrainingSettings:
    """Optimisation (paper sections 5.3 and 5.4), and how often the run is logged, validated and saved.

    Training takes `updates` updates, or `epochs` epochs, which are converted to updates once the data are prepared (with BPE-dropout, as if
    all were as long as the first). Intervals are in updates. `learning_rate_scale` multiplies equation 3. `max_gradient_norm` clips;
    `None`, as in the paper, does not.

    `cooldown_share` is the share of all updates, at their end, over which the learning rate falls linearly to zero (Hägele et al., 2024).
    Until then it is the paper's, so a run may be made longer before its cooldown begins. `patience` ends a run without it.

    `precision` is that of the products; weights and their gradients stay in float32. `float16` needs a GPU. A CPU without products in
    bfloat16 (`vaswani info` shows it) computes in float32 where `bfloat16` stands here, and says so.

    `parallel_heads` is k, the tokens that the trained model proposes in a step of blockwise parallel decoding: one more than it has heads.
    They are added to the model `init_from`, or trained on where it has them. `fine_tuning.freeze: [backbone]` trains nothing else. With
    `chained_heads`, one layer proposes a token after the other, and sees the source and the token before (Ankner et al., 2024).

    The run keeps the last `keep_last_checkpoints` checkpoints (by default those that are averaged) and the
    `keep_best_checkpoints` best by `best_checkpoint_metric`: `loss`, or a score of the task, by default its first one (BLEU for
    translation, accuracy for classification). Only checkpoints that were validated compete, so let
    `validate_every` be a multiple of `checkpoint_every`. `patience` ends the run after that many validations without a better
    one; `None` trains for all `updates`.

    `initial_scale` multiplies the first weights of every residual branch's values, output projection and feed-forward network
    (`v_proj`, `out_proj`, `fc1`, `fc2`), so that post-LayerNorm starts nearer to the identity. `deepnorm` takes the factors of DeepNorm
    (Wang et al., 2022, section 4), 0.87 * (N^4 * M)^(-1/16) in an encoder of N layers and (12 * M)^(-1/4) in a decoder of M. The
    architecture stays the paper's: of DeepNorm only the start is taken, not the weight of the residual connection.

    `initial_embedding_scale` multiplies the first token embeddings, whose deviation is D^-0.5, and with them a tied softmax. Below 1, rare
    tokens disturb the others less, since their vectors stay near their random start. BERT's deviation of 0.02 is 0.23 at D = 128.

    `r_drop` is R-Drop's alpha (Wu et al., 2021): every micro-batch passes twice with different dropout, and the loss is the mean of both
    cross entropies plus alpha times the mean of both divergences between the two predictions. The paper adds both cross entropies, so its
    alpha of 5 is 2.5 here. An update takes twice the time, FLOPs and memory; `target_tokens` in the log are those of the pairs.

    `word_dropout` is the probability with which a token of the source, or of the target that the decoder reads, is left out (Sennrich and
    Zhang, 2019): `<pad>` takes its place, or `<unk>` where the tokenizer has one. Special tokens stay, and all tokens are predicted.

    In the first `both_directions_epochs` epochs, half of the pairs are turned: the model also learns to translate the target language into
    the source language, and only then the wanted direction alone (Ding, Wu and Tao, 2021). An even number gives every pair in both
    directions equally often. Nothing marks the direction; the language of the source tells it.

    `optimizer: muon` trains the matrices of the layers by Muon (Jordan et al., 2024), and embeddings, biases, LayerNorm and what maps to
    labels by Adam. Muon's steps are as large as Adam's at the same learning rate (Liu et al., 2025), times `muon_learning_rate_scale`.

    `weight_decay` is AdamW's (Loshchilov and Hutter, 2019): an update multiplies every matrix, embeddings included, by
    1 - learning rate * `weight_decay`. Biases and LayerNorm do not decay.

    `ema_decay`, such as 0.999, keeps an exponential moving average of the weights over all updates, with bias correction. Checkpoints then
    hold the average in place of the weights, validation scores it, and `averaged` is the last checkpoint, whatever `average_checkpoints`
    says. The weights themselves stay in the saved state, from which the run resumes.
    """

    updates: int | None = None
    epochs: float | None = None
    warmup_updates: int = 4000
    learning_rate_scale: float = 1.0
    cooldown_share: float = 0.0
    initial_scale: float | Literal["deepnorm"] = 1.0
    initial_embedding_scale: float = 1.0
    optimizer: Literal["adam", "muon"] = "adam"
    muon_learning_rate_scale: float = 1.0
    adam_betas: tuple[float, float] = (0.9, 0.98)
    adam_epsilon: float = 1e-9
    weight_decay: float = 0.0
    label_smoothing: float = 0.1
    r_drop: float = 0.0
    word_dropout: float = 0.0
    both_directions_epochs: int = 0
    parallel_heads: int = 1
    chained_heads: bool = False
    max_gradient_norm: float | None = None
    precision: Precision = "float32"
    compile: bool = False
    gradient_checkpointing: bool = False
    seed: int = 1
    log_every: int = 50
    validate_every: int = 1000
    checkpoint_every: int = 1000
    average_checkpoints: int = 5
    ema_decay: float | None = None
    keep_last_checkpoints: int | None = None
    keep_best_checkpoints: int = 1
    best_checkpoint_metric: CheckpointMetric | None = None
    patience: int | None = None
    trackers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_at_least(self, 1, "updates", "warmup_updates", "log_every", "validate_every", "checkpoint_every")
        require_at_least(self, 1, "average_checkpoints", "patience", "parallel_heads")
        require_above_zero(self, "epochs")
        if self.updates is not None and self.epochs is not None:
            raise ValueError("give `updates` or `epochs`, not both; take one out (or set it to null).")
        require_at_least(self, self.average_checkpoints, "keep_last_checkpoints")
        require_at_least(self, 0, "seed", "keep_best_checkpoints", "weight_decay", "r_drop", "both_directions_epochs")
        require_above_zero(self, "learning_rate_scale", "muon_learning_rate_scale", "initial_embedding_scale")
        require_above_zero(self, "adam_epsilon", "max_gradient_norm")
        if self.optimizer == "adam" and self.muon_learning_rate_scale != 1:
            raise ValueError("`muon_learning_rate_scale` is for `optimizer: muon`, and `optimizer` is adam; set that, or leave it out.")
        if not 0 <= self.cooldown_share <= 1:
            raise ValueError(f"`cooldown_share` is a share of all updates, from 0 to 1, not {self.cooldown_share}.")
        if self.ema_decay is not None and not 0 < self.ema_decay < 1:
            raise ValueError(f"`ema_decay` must lie between 0 and 1 (both excluded), not {self.ema_decay}.")
        if self.initial_scale != "deepnorm":
            require_above_zero(self, "initial_scale")
        for name in ("label_smoothing", "word_dropout", "adam_betas"):
            rates = getattr(self, name)
            if not all(0 <= rate < 1 for rate in (rates if isinstance(rates, tuple) else (rates,))):
                raise ValueError(f"`{name}` must lie between 0 and 1 (excluded), not {rates}.")

    @property
    def total_updates(self) -> int:
        """The number of updates; for settings in epochs known only with the data, see `in_updates`."""
        if self.updates is None:
            raise ValueError(f"How many updates {self.epochs:g} epochs are is known once the data are prepared.")
        return self.updates

    def in_updates(self, updates_in: Callable[[float], int]) -> "TrainingSettings":
        """The same settings without epochs; `updates_in` converts epochs to updates."""
        return self if self.epochs is None else dataclasses.replace(self, epochs=None, updates=updates_in(self.epochs))


@dataclass(frozen=True)
class LoraSettings:
    """Low-rank adapters (Hu et al., 2021), trained in place of all weights; names are PEFT's."""

    rank: int = 8
    alpha: int = 16
    dropout: float = 0.0
    target_modules: tuple[str, ...] = ("q_proj", "v_proj")

    def __post_init__(self) -> None:
        require_at_least(self, 1, "rank")
        require_above_zero(self, "alpha")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` must be a number between 0 and 1 (excluded), not {self.dropout}.")


@dataclass(frozen=True)
class FineTuningSettings:
    """What is different when the model starts from a checkpoint.

    `freeze` does not train the layers of the encoder, those of the decoder, or the embeddings (with the softmax they are
    tied to); `backbone` is all but the parallel heads. `layer_decay` multiplies the learning rate once for every layer below a stack's
    top one, and once more for the embeddings.
    """

    freeze: tuple[Literal["encoder", "decoder", "embeddings", "backbone"], ...] = ()
    layer_decay: float = 1.0
    lora: LoraSettings | None = None

    def __post_init__(self) -> None:
        if not 0 < self.layer_decay <= 1:
            raise ValueError(f"`layer_decay` must lie above 0 and be at most 1, not {self.layer_decay}.")
        if self.lora is not None and (self.freeze or self.layer_decay != 1):
            raise ValueError("`lora` freezes all but its adapters; leave out `freeze` and `layer_decay`.")


@dataclass(frozen=True)
class SearchSettings:
    """What goes into `generation_config.json` (paper section 6.1).

    With `copy_items`, the pipeline and `vaswani translate` search a sentence again that lost inline code, a placeholder or a number of its
    source, until the translation has it; a list names the classes of `copied_items.CLASSES`.

    `draft` says what proposes several tokens a step in greedy searches, which find the same words sooner where proposals are often right:
    the model's parallel `heads`, the `source`, or both. Of heads, `draft_tokens` are proposed a step, `parallel_heads - 1` unless set.
    """

    num_beams: int = PAPER_SEARCH["num_beams"]
    length_penalty: float = PAPER_SEARCH["length_penalty"]
    length_penalty_type: Literal["gnmt"] | None = PAPER_SEARCH["length_penalty_type"]
    extra_length: int = PAPER_SEARCH["extra_length"]
    copy_items: bool | tuple[str, ...] = False
    draft: Literal["heads", "source", "source+heads"] | None = None
    draft_tokens: int | None = None

    def __post_init__(self) -> None:
        require_at_least(self, 1, "num_beams", "draft_tokens")
        require_at_least(self, 0, "extra_length")
        if self.num_beams == 1 and self.length_penalty != 1:
            raise ValueError("`search.length_penalty` compares translations, and with `num_beams: 1` there is only one; set it to 1.0.")
        if self.draft_tokens and "heads" not in (self.draft or ""):
            raise ValueError("`search.draft_tokens` is for what heads propose; set `search.draft: heads`, or leave it out.")
        wanted_classes(self.copy_items)


@dataclass(frozen=True)
class ValidationSettings:
    """How validation and test sets are translated and scored.

    During training, BLEU uses only the first `sentences` sentences of the validation set. The log shows `samples` translations.
    `num_beams` applies to validation during training; test sets are searched as `SearchSettings` says. With `count_copied`, the evaluation
    also counts how many inline names, placeholders and numbers of the test sets' sources are copied intact.
    """

    batch_tokens: int = 4096
    sentences: int | None = None
    num_beams: int = 1
    samples: int = 3
    lowercase: bool = False
    count_copied: bool = False

    def __post_init__(self) -> None:
        require_at_least(self, 1, "batch_tokens", "sentences", "num_beams")
        require_at_least(self, 0, "samples")


@dataclass(frozen=True)
class NoiseSettings:
    """What pretraining hides, and how the model finds it again.

    With `masking`, the encoder alone predicts hidden tokens (Devlin et al., 2019): four in five of them are `<mask>`, one in ten is any
    token and one stays. With `denoising`, encoder and decoder restore the whole text, in which a single `<mask>` takes the place of each
    hidden span (BART's text infilling, Lewis et al., 2020). `share` is that of the hidden tokens, `mean_span` the tokens of a span.
    """

    kind: Literal["masking", "denoising"] = "masking"
    share: float = 0.15
    mean_span: float = 3.0

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(f"`share` must lie between 0 and 1 (both excluded), not {self.share}.")
        require_at_least(self, 1, "mean_span")


@dataclass(frozen=True)
class AnswerSettings:
    """How `task: question_answering` answers.

    With `text`, encoder and decoder write the answer, and a question stands at the end of its text. With `span`, the encoder marks the
    answer in a context, by a score for each token as its first and as its last (Devlin et al., 2019, section 4.2); corpora then say where
    in the context an answer stands.

    All others are for `span`. A context that does not fit beside its question into `batching.max_sentence_tokens` is cut into windows,
    which share `overlap` tokens of the context: by default 128, or half of the room where that is less. A question is cut after
    `longest_question` tokens. `longest` is the most tokens of an answer that is looked for. `may_be_none` lets the model say that there is
    no answer, as in SQuAD 2.0; without it, a question without an answer is an error. The trained model's pipeline has the same settings.
    """

    kind: Literal["text", "span"] = "text"
    overlap: int | None = None
    longest: int = LONGEST_ANSWER
    longest_question: int = LONGEST_QUESTION
    may_be_none: bool = False

    def __post_init__(self) -> None:
        require_at_least(self, 1, "longest", "longest_question")
        require_at_least(self, 0, "overlap")
        changed = [f.name for f in dataclasses.fields(self) if f.name != "kind" and getattr(self, f.name) != f.default]
        if self.kind == "text" and changed:
            raise ValueError(f"`{changed[0]}` is for answers that are marked in a context; add `kind: span`, or leave it out.")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the outcome of an experiment.

    `model` holds fields of `VaswaniConfig` that override a `preset` of it ("base" by default). If `init_from` names a folder, or a
    repository of the Hub, with a model of ours, training starts from its weights, and `model` may hold dropout rates, and fewer
    `encoder_layers` or `decoder_layers` than it has. Then evenly spaced layers of it are kept (Shleifer and Rush, 2020).

    `target_language` applies to every corpus that names none; for a model of several, `mul` is the code. Only translation has one.

    `task` decides what an example is, what the model is and how it is scored; all else is the same for every task. `summarization` and
    `question_answering` write text, as translation does, and cut a source of more than `batching.max_sentence_tokens`. `classification`
    gives a text one label, `tagging` each word of a text. `pretraining` undoes `noise`. `answers` says whether `question_answering` writes
    its answers or marks them in a context.
    """

    name: str
    source_language: str
    target_language: str = field(default="", kw_only=True)
    data: DataSettings
    tokenizer: TokenizerSettings
    training: TrainingSettings
    model: dict[str, Any] = field(default_factory=dict)
    init_from: str | None = None
    fine_tuning: FineTuningSettings = FineTuningSettings()
    batching: BatchingSettings = BatchingSettings()
    search: SearchSettings = SearchSettings()
    validation: ValidationSettings = ValidationSettings()
    task: TaskName = "translation"
    noise: NoiseSettings = NoiseSettings()
    answers: AnswerSettings = AnswerSettings()

    def __post_init__(self) -> None:
        if self.name in ("", ".", "..") or any(mark in self.name for mark in "/\\\0"):
            raise ValueError(f"`name` is that of the run's folder below runs/ and cannot be {self.name!r}; choose one without / and \\.")
        self._settle_task()
        self._check_languages()
        self._check_length()
        if "vocab_size" in self.model:
            raise ValueError("`model.vocab_size` is decided by the tokenizer; set `tokenizer.vocab_size`.")
        self._check_what_is_trained()
        if self.training.both_directions_epochs:
            self._check_directions()
        self._check_rates()
        self._check_choices()
        if self.init_from is not None:
            self._check_fine_tuning()
            return
        if self.tokenizer.method != "train" or self.fine_tuning != FineTuningSettings():
            raise ValueError(
                "`fine_tuning` and `tokenizer.method: keep` or `extend` are for a model that starts from another; add `init_from`."
            )
        fields = {f.name for f in dataclasses.fields(VaswaniConfig)}
        for key in self.model:
            if key != "preset" and key not in fields:
                raise ValueError(unknown_key("model", key, {"preset", *fields}))
        if (preset := self.model.get("preset", "base")) not in PRESETS:
            raise ValueError(unknown_value("model.preset", preset, PRESETS))
        # Reports a wrong size before hours of preparing data
        self.check_dropout(self.model_config(vocab_size=self.tokenizer.vocab_size))

    def _settle_task(self) -> None:
        """Fill in what depends on the task, and refuse what does not belong to it."""
        metrics = tuple(self.facts.metrics)
        metric: Any = self.training.best_checkpoint_metric or metrics[0]
        if metric not in ("loss", *metrics):
            raise ValueError(unknown_value("training.best_checkpoint_metric", metric, ("loss", *metrics)))
        object.__setattr__(self, "training", dataclasses.replace(self.training, best_checkpoint_metric=metric))
        if self.task == "translation":
            if not self.target_language:
                raise ValueError("`target_language` is missing; add it to the recipe.")
        else:
            self._check_one_language()
        if self.task != "pretraining" and self.noise != NoiseSettings():
            raise ValueError(f"`noise` is for `task: pretraining`, and this recipe has `task: {self.task}`; leave it out.")
        if self.task != "question_answering" and self.answers != AnswerSettings():
            raise ValueError(f"`answers` is for `task: question_answering`, and this recipe has `task: {self.task}`; leave it out.")
        if self.marks_answers:
            self._check_windows()
        if self.has_no_decoder:
            self._check_encoder_only()
        self._check_parts_of_tasks()
        if self.task == "pretraining" and self.tokenizer.bpe_dropout:
            raise ValueError("`tokenizer.bpe_dropout` and noise are not drawn together; leave one out.")
        if self.facts.labels:
            self._check_labels()
        elif self.data.labels:
            raise ValueError(f"`data.labels` names labels, and `task: {self.task}` has none; leave it out, or set another `task`.")

    def _check_one_language(self) -> None:
        asked = {self.target_language, *(spec.target_language for specs in self.data.by_split.values() for spec in specs)}
        if asked - {"", None, self.source_language}:
            raise ValueError(f"`target_language` is for translation, and this recipe has `task: {self.task}`; leave it out.")
        object.__setattr__(self, "target_language", self.source_language)
        if self.data.distillation is not None:
            raise ValueError(f"`data.distillation` is for translation, and this recipe has `task: {self.task}`; leave it out.")

    @property
    def pipeline_tag(self) -> str:
        """The Hub's name of what the model does."""
        return "text2text-generation" if self.task == "pretraining" and not self.has_no_decoder else self.facts.pipeline_tag

    @property
    def has_no_decoder(self) -> bool:
        """Whether the model is an encoder with a map."""
        return self.facts.labels or self.marks_answers or (self.task == "pretraining" and self.noise.kind == "masking")

    @property
    def marks_answers(self) -> bool:
        """Whether the model marks answers in a context."""
        return self.answers.kind == "span"

    def _check_windows(self) -> None:
        """A window must hold the longest question, what it shares with the next one, and more."""
        size, question, overlap = self.batching.max_sentence_tokens, self.answers.longest_question, self.answers.overlap or 1
        if size <= question + overlap + _BESIDE_A_PAIR:
            raise ValueError(
                f"windows of `batching.max_sentence_tokens: {size}` have no room for a context beside a question of "
                f"`answers.longest_question: {question}` tokens and `answers.overlap: {overlap}`; raise the first, or lower another."
            )

    def _check_encoder_only(self) -> None:
        """Refuse what only a model that writes text can do."""
        unfit = {
            "search": self.search != SearchSettings(),
            "tokenizer.bpe_dropout": self.tokenizer.bpe_dropout > 0,
            "training.parallel_heads": self.training.parallel_heads > 1,
            "validation.count_copied": self.validation.count_copied,
            "validation.num_beams": self.validation.num_beams > 1,
            "validation.lowercase": self.validation.lowercase,
            "validation.sentences": self.validation.sentences is not None,
            "fine_tuning.freeze: [decoder]": "decoder" in self.fine_tuning.freeze,
            "fine_tuning.freeze: [backbone]": "backbone" in self.fine_tuning.freeze,
        }
        if self.task != "pretraining":  # what begins with a pretrained encoder may give it a decoder of that shape
            unfit |= {f"model.{key}": True for key in self.model if key.startswith("decoder_")}
        if named := [name for name, is_set in unfit.items() if is_set]:
            raise ValueError(f"`{named[0]}` is for models that write text, and that of {self._named} writes none; leave it out.")

    @property
    def _named(self) -> str:
        return f"`task: {self.task}`" + (" with `answers: {kind: span}`" if self.marks_answers else "")

    def _check_parts_of_tasks(self) -> None:
        """Refuse settings of a map or of a kind of noise that this task does not have."""
        for key, tasks in _OF_A_HEAD.items():
            if key in self.model and self.task not in tasks:
                named = " and ".join(f"`task: {task}`" for task in tasks)
                raise ValueError(f"`model.{key}` is for {named}, and this recipe has {self._named}; leave it out.")
        if self.noise.kind == "masking" and self.noise.mean_span != NoiseSettings().mean_span:
            raise ValueError("`noise.mean_span` is for `kind: denoising`, and masking hides single tokens; leave it out.")

    def _check_labels(self) -> None:
        names = list(self.data.labels.values())
        if len(names) == 1:
            raise ValueError("`data.labels` names one label, and there must be two or more to choose from.")
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"`data.labels` gives the name {twice[0]!r} to two labels; give each its own.")

    @property
    def facts(self) -> Task:
        """The facts about the recipe's task."""
        return MARKING if self.marks_answers else TASKS[self.task]

    def _check_languages(self) -> None:
        require_language_code(self, "source_language")
        require_language_code(self, "target_language")
        trained = self.translates_into
        if "mul" in self.target_languages:
            raise ValueError("`mul` is no language to translate into; set `target_language` in each of `data.train`.")
        for split, specs in self.data.by_split.items():
            for spec in specs:
                if (language := self.languages_of(spec)[1]) not in trained:
                    raise ValueError(
                        f"`data.{split}` has a corpus in {language}, but the target languages of training are {', '.join(trained)}; "
                        "set its `target_language`."
                    )
        if self.batching.temperature != 1 and not self.target_languages:
            raise ValueError("`batching.temperature` is for several target languages; name `target_language` in each of `data.train`.")

    def _check_rates(self) -> None:
        """Refuse a wrong rate of dropout before hours of preparing data."""
        for name in (*_RATES_OF_DROPOUT, "classifier_dropout"):
            rate = self.model.get(name, 0)
            if rate is None and name == "classifier_dropout":  # the same as `dropout`
                continue
            if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < 1:
                raise ValueError(f"`model.{name}` must be a number between 0 and 1 (excluded), not {rate!r}.")

    def _check_choices(self) -> None:
        """Refuse an unknown word before hours of preparing data; the model that `init_from` names is read only then."""
        for setting in dataclasses.fields(VaswaniConfig):
            if typing.get_origin(setting.type) is Literal and setting.name in self.model:
                choices, value = typing.get_args(setting.type), self.model[setting.name]
                if value not in choices:
                    raise ValueError(f"`model.{setting.name}` must be one of {', '.join(choices)}, not {value!r}.")

    def check_dropout(self, config: VaswaniConfig) -> None:
        """Refuse R-Drop for a model without dropout.

        Raises:
            ValueError: both passes would be the same.
        """
        lora = self.fine_tuning.lora
        rates = [*(getattr(config, name) for name in _RATES_OF_DROPOUT), 0.0 if lora is None else lora.dropout]
        if self.training.r_drop and not any(rates):
            raise ValueError(
                "`training.r_drop` compares two passes with different dropout, and there is none; set `model.dropout` above 0."
            )

    def _check_what_is_trained(self) -> None:
        heads, tuning = self.training.parallel_heads > 1, self.fine_tuning
        if "parallel_heads" in self.model:
            raise ValueError("`model.parallel_heads` is decided by the training; set `training.parallel_heads`.")
        if "chained_heads" in self.model or (self.training.chained_heads and not heads):
            raise ValueError("`training.chained_heads` says of which kind `training.parallel_heads` are; set both there.")
        if not heads and "heads" in (self.search.draft or ""):
            raise ValueError(f"`search.draft: {self.search.draft}` needs heads; set `training.parallel_heads`, or leave it out.")
        if not self.training.chained_heads and (self.search.draft_tokens or 1) >= max(self.training.parallel_heads, 2):
            raise ValueError(
                f"`search.draft_tokens` is {self.search.draft_tokens}, and heads for `training.parallel_heads: "
                f"{self.training.parallel_heads}` propose one less; set it lower."
            )
        if heads and self.init_from is None:
            raise ValueError("`training.parallel_heads` are for a model that translates already; name it in `init_from`.")
        if heads and tuning.lora is not None:
            raise ValueError("`fine_tuning.lora` trains adapters only, and `training.parallel_heads` would stay untrained; leave one out.")
        if self.training.optimizer == "muon" and tuning.lora is not None:
            raise ValueError(
                "`training.optimizer: muon` is for the matrices of layers, and `fine_tuning` trains none of them here; leave it out."
            )
        if heads and self.training.r_drop:
            raise ValueError("`training.r_drop` compares predictions of the next token only; leave it or `training.parallel_heads` out.")
        if "backbone" in tuning.freeze and not heads:
            raise ValueError("`fine_tuning.freeze: [backbone]` leaves nothing to train without heads; set `training.parallel_heads`.")
        if "backbone" in tuning.freeze and self.training.best_checkpoint_metric == "bleu":
            raise ValueError(
                "a frozen backbone translates the same after every update, so BLEU cannot tell which checkpoint is best; set "
                "`training.best_checkpoint_metric: loss`."
            )

    def _check_directions(self) -> None:
        name = "training.both_directions_epochs"
        if self.task != "translation" or self.target_languages or self.source_language == self.target_language:
            raise ValueError(
                f"`{name}` turns the pairs of two languages, and this recipe does not translate between just two; leave it out."
            )
        if self.training.parallel_heads > 1:
            raise ValueError(f"`training.parallel_heads` learn to propose texts of the wanted direction only; leave them or `{name}` out.")
        if self.batching.source_tokens != self.batching.target_tokens:
            raise ValueError(
                f"`{name}` makes sources of targets, so `batching.source_tokens` and `batching.target_tokens` must be equal, and they are "
                f"{self.batching.source_tokens} and {self.batching.target_tokens}."
            )

    def _check_fine_tuning(self) -> None:
        for name in ("initial_scale", "initial_embedding_scale"):
            if getattr(self.training, name) != 1:
                raise ValueError(f"`training.{name}` is for a model that starts at random, but `init_from` names another; drop one.")
        layers = _LAYERS[:1] if self.has_no_decoder else _LAYERS
        free = (*_RATES_OF_DROPOUT, *layers, *(_OF_A_HEAD if self.facts.labels else ()))
        for key, value in self.model.items():
            if key not in free:
                raise ValueError(f"`model.{key}` is that of the checkpoint `init_from`; only {', '.join(free)} may be set here.")
            if key in layers and (type(value) is not int or value < 1):
                raise ValueError(f"`model.{key}` must be a whole number from 1 on, not {value!r}.")

    @property
    def kept_layers(self) -> dict[str, int]:
        """How many layers of the model `init_from` its encoder and decoder keep, if not all: `encoder_layers` and `decoder_layers`."""
        return {key: self.model[key] for key in _LAYERS if self.init_from is not None and key in self.model}

    def _check_length(self) -> None:
        if self.training.updates is None and self.training.epochs is None:
            raise ValueError("`training.updates` is missing, and so is `training.epochs`; add one of them to the recipe.")

    @property
    def languages(self) -> tuple[str, str]:
        return self.source_language, self.target_language

    @property
    def target_languages(self) -> tuple[str, ...]:
        """The languages that a token before the source selects, in the order of the training corpora; none for a model of one."""
        if all(spec.target_language is None for spec in self.data.train):
            return ()
        return tuple(dict.fromkeys(self.languages_of(spec)[1] for spec in self.data.train))

    @property
    def translates_into(self) -> tuple[str, ...]:
        """The target language, or all target languages."""
        return self.target_languages or (self.target_language,)

    @property
    def subject(self) -> str:
        """What the model does, such as `en to de` or `classification, en`."""
        if self.task == "translation":
            return f"{self.source_language} to {', '.join(self.translates_into)}"
        return f"{self.task}, {self.source_language}"

    def languages_of(self, spec: Corpus) -> tuple[str, str]:
        """Language codes of a corpus' source and target."""
        return self.source_language, spec.target_language or self.target_language

    def columns_of(self, spec: Corpus) -> tuple[str, str]:
        """What the columns of a table are called, unless the corpus says so: the codes of its languages, or `text` and `label`."""
        return self.facts.columns or self.languages_of(spec)

    def model_config(self, **overrides: Any) -> VaswaniConfig:
        """The architecture the recipe names, with `overrides` such as `vocab_size` on top.

        Raises:
            ValueError: the settings contradict each other or are of the wrong type.
        """
        settings = {key: value for key, value in self.model.items() if key != "preset"}
        if self.has_no_decoder:  # what nothing is made of must not contradict the encoder
            given = {key.removeprefix("encoder_"): value for key, value in settings.items() if key.startswith("encoder_")}
            settings = {**{f"decoder_{name}": value for name, value in given.items()}, **settings}
        if self.init_from is not None:
            if self.kept_layers:
                self._check_kept_layers(VaswaniConfig.from_pretrained(self.init_from))
            found: VaswaniConfig = VaswaniConfig.from_pretrained(self.init_from, **{**settings, **overrides})
            return found
        try:
            return VaswaniConfig.from_preset(self.model.get("preset", "base"), **{**settings, **overrides})
        except StrictDataclassError as error:
            raise ValueError(f"`model`: {error.__cause__ or error}") from error

    def _check_kept_layers(self, origin: VaswaniConfig) -> None:
        for key, wanted in self.kept_layers.items():
            if wanted > (found := getattr(origin, key)):
                raise ValueError(
                    f"`model.{key}` is {wanted}, and the model of `init_from` has {found} of them; keep {found} or fewer, or leave it out."
                )

    def to_yaml(self) -> str:
        """Every setting, defaults included, in a form that `parse_recipe` reads back to an equal recipe."""
        return yaml.safe_dump(plain(dataclasses.asdict(self)), sort_keys=False, allow_unicode=True, width=120)


def load_recipe(path: str | Path, overrides: typing.Sequence[str] = (), *, in_run_folder: bool = False) -> Recipe:
    """Read a recipe file and apply `overrides` of the form `training.updates=100` (values are YAML).

    A relative `data.root` starts at the folder of the file. It starts at the working directory if an override names it, in the recipes
    that come with the project, and in those that a training has written into its run folder.

    Args:
        path: the file.
        overrides: settings that replace those of the file.
        in_run_folder: the file is what a training wrote, with every setting and override in it.

    Raises:
        FileNotFoundError: `path` does not exist.
        ValueError: the file is no YAML mapping, or a key or value is wrong; the sentence names file, key and remedy.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no recipe file {path}; `vaswani recipes` lists those that come with the package.")
    tree = read_mapping(path)
    if not in_run_folder and not _is_of_a_run(path) and path.resolve() not in {shipped.resolve() for shipped in shipped_recipes().values()}:
        _anchor(tree, path.parent)
    for override in overrides:
        apply_override(tree, override)
    try:
        return parse_recipe(tree)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _is_of_a_run(path: Path) -> bool:
    """Whether a training wrote this file."""
    run = RunFolder(path.parent)
    return path.name == run.recipe.name and run.lock.exists()


def _anchor(tree: dict[str, Any], folder: Path) -> None:
    """Let a relative `data.root` start at `folder`; the parser reports what is not a recipe."""
    data = tree.get("data")
    if isinstance(data, dict) and isinstance(root := data.get("root", "."), str):
        data["root"] = str(folder / root)


def parse_recipe(tree: dict[str, Any]) -> Recipe:
    """Turn a mapping, as YAML gives it, into a `Recipe`; see `load_recipe` for the errors."""
    return parse(Recipe, tree, _SYNONYMS)
