"""What a translation comes from, token by token: gradients, occlusion, attention and value zeroing, in one form and one picture."""

import base64
import html
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..packing import is_packed
from .maps import MEMORY_LIMIT, Level, at_rest, check_size, eager, merged
from .through_inseq import BY_GRADIENT, Scores, check_inseq, inseq_scores
from .translating import Translating, Translation
from .value_zeroing import value_zeroing
from .words import Places, labels, units_of, words_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Method = Literal["saliency", "input_x_gradient", "integrated_gradients", "occlusion", "attention", "value_zeroing"]

MOST_TOKENS = 1024
"""Of a source or a translation, for all methods but attention: each token takes a pass over the whole text."""

Part = Literal["source", "prefix"]


@dataclass(frozen=True, eq=False)
class Attribution:
    """How much each token of the source, and of what is already written, counts for each token of a translation.

    S source units, T target units. A unit is a subword, or a word after `words()`. The scores are as the method gives them; `weights` and
    `prefix_weights` are the same, comparable between rows.
    """

    method: Method
    source: tuple[str, ...]
    """S units that the encoder reads, the end of the sentence included."""
    target: tuple[str, ...]
    """T units as the decoder writes them, the end of the sentence included."""
    read: tuple[str, ...]
    """T units that the decoder has read: its start, then all of `target` but the last."""
    scores: Tensor
    """`[T, S]`: of each source unit for each target unit. Input x gradient and integrated gradients have signs; the others have none."""
    prefix_scores: Tensor
    """`[T, T]`: of each unit of `read`, 0 for what is read later."""
    log_probabilities: Tensor
    """`[T]`: natural logarithm of the probability of each unit of `target`, given what is before it."""
    source_text: str
    target_text: str
    score: float | None = None
    """What the search ranked this translation by; `None` for a target that was given."""
    source_words: Places = ()
    """The places in `source` of each word; empty after `words()`."""
    target_words: Places = ()
    read_words: Places = ()

    @property
    def weights(self) -> Tensor:
        """`[T, S]`: each row of `scores` divided by the sum of its absolute values; a row of zeros stays."""
        return _shares(self.scores)

    @property
    def prefix_weights(self) -> Tensor:
        """`[T, T]`: each row of `prefix_scores` divided by the sum of its absolute values; a row of zeros stays."""
        return _shares(self.prefix_scores)

    def words(self) -> "Attribution":
        """The same by words: scores summed over the tokens of a source word, then averaged over those of a target word.

        Scores with signs may cancel in the sum: a word counts for what its tokens do together. The sum of a row stays what it was, so that
        integrated gradients still sum to a difference of probabilities, here the mean of those of the word's tokens.
        """
        if not self.source_words:
            return self
        return replace(
            self,
            source=labels(self.source, self.source_words),
            target=labels(self.target, self.target_words),
            read=labels(self.read, self.read_words),
            scores=merged(self.scores, self.target_words, self.source_words),
            prefix_scores=merged(self.prefix_scores, self.target_words, self.read_words),
            log_probabilities=torch.stack([self.log_probabilities[list(places)].sum() for places in self.target_words]),
            source_words=(),
            target_words=(),
            read_words=(),
        )

    def figure(self, part: Part = "source") -> "Figure":
        """The weights as a heat map, which `figures.write_figure` writes as PNG or SVG: the translation from top to bottom.

        Args:
            part: `"source"` for `weights`, `"prefix"` for `prefix_weights`.

        Raises:
            ValueError: there is no such part.
        """
        from .figures import heat_map

        if part not in get_args(Part):
            raise ValueError(f"There is no part {part!r}; choose {' or '.join(get_args(Part))}.")
        name = self.method.replace("_", " ").capitalize()
        if part == "source":
            return heat_map(self.weights, self.target, self.source, f"{name}: the source")
        return heat_map(self.prefix_weights, self.target, self.read, f"{name}: what is written before")

    def _repr_html_(self) -> str:
        from .figures import picture_bytes

        picture = base64.b64encode(picture_bytes(self.figure())).decode()
        name = html.escape(f"{self.method.replace('_', ' ')} of “{self.target_text}” from “{self.source_text}”", quote=True)
        return f'<img alt="Heat map: {name}" src="data:image/png;base64,{picture}" style="max-width: 100%; width: 40em">'


def _shares(scores: Tensor) -> Tensor:
    sums = scores.abs().sum(-1, keepdim=True)
    return scores / sums.where(sums > 0, 1)


def attribute(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    target: str | None = None,
    *,
    method: Method = "saliency",
    level: Level = "subword",
    steps: int = 50,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    memory_limit: int | None = MEMORY_LIMIT,
    **search: Any,
) -> Attribution:
    """Say what each token of a translation comes from.

    Text is read, and a translation found, as by `attention_maps`: by the model's own search. Each written token is then attributed given
    the ones before it. What is attributed is its probability, p.

    - `saliency`: the length (L2) of the gradient of p by a token's embedding (Simonyan et al. 2014).
    - `input_x_gradient`: the inner product of that gradient and the embedding (Denil et al. 2014); with signs.
    - `integrated_gradients`: that product along the straight way from a baseline (Sundararajan et al. 2017); with signs. A row of source
      and prefix together sums to p minus p of the baseline.
    - `occlusion`: how much p changes when the token's embedding gives way to the baseline's (Zeiler and Fergus 2014).
    - `attention`: the weights of `attention_maps`, the mean of all layers and heads. It does not look at p.
    - `value_zeroing`: how far a layer's output moves without the token's value vector, the mean of all layers (Mohebbi et al. 2023). It
      does not look at p.

    The baseline is the embedding of the tokenizer's unknown token, or of its padding where there is none. Control tokens such as `</s>`
    keep theirs, so that they score 0 in the two methods that have a baseline.

    The first five run through inseq and captum; `value_zeroing` is our own, for inseq's fails on models whose layers return a tensor.
    Whatever is set on the model and the tokenizer is put back, gradients and training mode, too, after an error as well. inseq's scores
    are float32.

    Args:
        model: an encoder-decoder of transformers.
        tokenizer: the model's.
        source: the text to translate.
        target: its translation, or `None` for the one that the model's own search finds.
        method: see above.
        level: `"subword"`, or `"word"` for `Attribution.words()`.
        steps: of integrated gradients; the sums are closer with more.
        src_lang: the source's language, for a multilingual model whose tokenizer has not been told it.
        tgt_lang: the target's language, likewise.
        memory_limit: the most bytes that weights or gradients may take; `None` for any number.
        search: settings of `generate` for the model's own translation, such as `num_beams`.

    Raises:
        ImportError: the method runs through inseq, which is not installed.
        TypeError: source or target is no string.
        ValueError: there is no such method or level; a text is longer than `MOST_TOKENS` and the method is not attention; a gradient is
            asked of packed weights; as for `attention_maps`.
    """
    _check(model, method, level, steps)
    with torch.inference_mode(False):  # whose tensors no gradient can pass
        found = _attributed(model, tokenizer, source, target, method, steps, (src_lang, tgt_lang), memory_limit, search)
    return found.words() if level == "word" else found


def _attributed(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    target: str | None,
    method: Method,
    steps: int,
    languages: tuple[str | None, str | None],
    memory_limit: int | None,
    search: dict[str, Any],
) -> Attribution:
    translating = Translating(model, tokenizer, *languages)
    inputs = translating.read(source)
    read = inputs["input_ids"].shape[1]
    with torch.no_grad(), at_rest(model):
        check_size(model, "source", read, 0, memory_limit)
        translation = translating.given(target, inputs, search) if target is not None else translating.found(inputs, 1, search)[0]
        what = "translation" if target is None else "target"
        check_size(model, what, read, len(translation.ids) - 1, memory_limit)
        if method != "attention":
            _check_passes(what, max(read, len(translation.ids) - 1), method)
        if method in BY_GRADIENT:
            _check_gradients(model, what, read, len(translation.ids) - 1, memory_limit)
        return _attribution(translating, inputs, translation, source, target, method, steps)


def _attribution(
    translating: Translating,
    inputs: dict[str, Any],
    translation: Translation,
    source: str,
    target: str | None,
    method: Method,
    steps: int,
) -> Attribution:
    tokenizer, ids = translating.tokenizer, translation.ids
    model = _without_adapters(translating.model)
    read = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    logits = model(**read, decoder_input_ids=ids[None, :-1], use_cache=False, return_dict=True).logits[0]
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    with eager(model):
        if method == "value_zeroing":
            zeroed = value_zeroing(model, **read, decoder_input_ids=ids[None, :-1])
            scores = Scores(zeroed.cross.mean(0), zeroed.decoder.mean(0))
        else:
            scores = inseq_scores(model, tokenizer, read, ids, method, steps)
    source_ids, target_ids = inputs["input_ids"][0].tolist(), ids.tolist()
    own = tokenizer.decode(ids[1:], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return Attribution(
        method=method,
        source=units_of(tokenizer, source_ids, "source"),
        target=units_of(tokenizer, target_ids[1:]),
        read=units_of(tokenizer, target_ids[:-1]),
        scores=scores.source,
        prefix_scores=scores.prefix,
        log_probabilities=logits.log_softmax(-1).gather(-1, ids[1:, None])[:, 0].cpu(),
        source_text=source,
        target_text=own if target is None else target,
        score=translation.score,
        source_words=words_of(tokenizer, source_ids, "source"),
        target_words=words_of(tokenizer, target_ids[1:]),
        read_words=words_of(tokenizer, target_ids[:-1]),
    )


def _check(model: Any, method: Method, level: Level, steps: int) -> None:
    if method not in get_args(Method):
        raise ValueError(f"There is no attribution method {method!r}; choose {', '.join(get_args(Method))}.")
    if level not in get_args(Level):
        raise ValueError(f"There is no level {level!r}; choose {' or '.join(get_args(Level))}.")
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"`steps` is {steps!r}; it must be a whole number from 1.")
    if isinstance(model, torch.nn.Module) and is_packed(model) and method in (*BY_GRADIENT, "value_zeroing"):
        raise ValueError(f"Packed weights have no gradients and no separate values, so {method} is impossible; load the model without "
                         "packing, or choose occlusion or attention.")  # fmt: skip
    if method != "value_zeroing":
        check_inseq()


def _check_passes(what: str, tokens: int, method: Method) -> None:
    if tokens > MOST_TOKENS:
        raise ValueError(
            f"The {what} or its source has {tokens:,} tokens, and {method} takes a pass for each, at most {MOST_TOKENS:,}; look at one "
            "sentence at a time, or choose attention."
        )


def _check_gradients(model: Any, what: str, read: int, written: int, memory_limit: int | None) -> None:
    """Every pair of tokens has a vector: of the model's width, in float32, twice while inseq puts rows together."""
    width = model.get_encoder().get_input_embeddings().weight.shape[1]
    size = 8 * written * (read + written) * width
    if memory_limit is not None and size > memory_limit:
        raise ValueError(
            f"The {what} has {written:,} tokens, and gradients for every pair would take {size / 2**30:,.1f} GiB, above the limit of "
            f"{memory_limit / 2**30:,.1f} GiB; look at one sentence at a time, or allow more (memory_limit, in bytes)."
        )


def _without_adapters(model: Any) -> Any:
    """The model of transformers inside PEFT's, with its adapters still in its layers."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model
