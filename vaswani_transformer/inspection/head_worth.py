"""What each attention head is worth: BLEU without it (Michel, Levy and Neubig, 2019, "Are Sixteen Heads Really Better than One?").

A head is masked by making its output zero before the layer's output projection. That is the same as zeroing the columns of the
projection that read this head, which is what happens here: so every way in which a model computes, the fast search included, computes
without the head.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import torch
from sacrebleu import BLEU
from sacrebleu.significance import PairedTest, Result
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..evaluation.bleu import check_aligned, sacrebleu_tokenizer
from ..translation.translate import translate
from .figures import Kind
from .heads import HeadName

RESAMPLES = 1000
"""Of the paired bootstrap."""


class AttentionLayer(NamedTuple):
    """One layer of attention: its output projection, and how many heads it reads, side by side."""

    kind: Kind
    layer: int
    projection: nn.Linear
    heads: int

    def columns(self, head: int) -> slice:
        """Those of the projection's weights that read `head`."""
        width = self.projection.in_features // self.heads
        return slice(head * width, (head + 1) * width)


class Worth(NamedTuple):
    """BLEU without some heads, and how sure it is that it differs from the whole model's."""

    bleu: float
    p: float
    """Of a paired bootstrap test with 1,000 resamples (Koehn, 2004): the probability of such a difference if there were none."""


def attention_layers(model: PreTrainedModel) -> list[AttentionLayer]:
    """The attention of a model, layer by layer: encoder, decoder, then cross-attention.

    It knows the models whose layers hold one attention module in the encoder and two in the decoder, with an output projection called
    `out_proj` (ours, Marian, BART, mBART, NLLB, M2M100) or `o` (T5, mT5).

    Raises:
        ValueError: the model is built otherwise, or its projections are packed, quantised or wrapped, so that no head can be masked.
    """
    found: list[AttentionLayer] = []
    stacks: list[tuple[tuple[Kind, ...], Any]] = [(("encoder",), model.get_encoder()), (("decoder", "cross"), model.get_decoder())]
    for kinds, stack in stacks:
        for number, layer in enumerate(getattr(stack, "layers", getattr(stack, "block", ()))):
            modules = [module for module in layer.modules() if _heads(module) and _projection(module) is not None]
            if len(modules) != len(kinds):
                raise ValueError(
                    f"Layer {number} of {type(stack).__name__} holds {len(modules)} attention modules, and {len(kinds)} are known."
                )
            found += [_checked(kind, number, module) for kind, module in zip(kinds, modules, strict=True)]
    if not found:
        raise ValueError(f"{type(model).__name__} has no layers with heads that could be masked.")
    order = ("encoder", "decoder", "cross")
    return sorted(found, key=lambda place: (order.index(place.kind), place.layer))


def head_names(model: PreTrainedModel) -> list[HeadName]:
    """Every head of a model, in the order of `attention_layers`."""
    return [HeadName(place.kind, place.layer, head) for place in attention_layers(model) for head in range(place.heads)]


@contextmanager
def masked(model: PreTrainedModel, heads: Iterable[HeadName]) -> Iterator[None]:
    """Let `model` compute without these heads; afterwards, whatever happened, each weight has the bits that it had.

    To search with packed weights, copy and pack the model inside.

    Raises:
        ValueError: there is no such head, or the model cannot be masked (see `attention_layers`).
    """
    layers = {(place.kind, place.layer): place for place in attention_layers(model)}
    columns: list[tuple[Tensor, slice]] = []
    for head in heads:
        place = layers.get((head.kind, head.layer))
        if place is None or not 0 <= head.head < place.heads:
            raise ValueError(f"There is no head {head.head} in layer {head.layer} of the kind {head.kind!r}; both are counted from 0.")
        columns.append((place.projection.weight, place.columns(head.head)))
    before = {weight: weight.detach().clone() for weight, _ in columns}
    try:
        with torch.no_grad():
            for weight, part in columns:
                weight[:, part] = 0
        yield
    finally:
        with torch.no_grad():
            for weight, bits in before.items():
                weight.copy_(bits)


class HeadWorth:
    """Measures BLEU of a model without some of its heads, against the whole model's, by the model's own search.

    The whole model translates once, when this is made; each `without` translates the text once more.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        pairs: Sequence[tuple[str, str]],
        language: str,
        *,
        tokenized: bool = False,
        lowercase: bool = False,
        progress: bool = False,
        **settings: Any,
    ) -> None:
        """Translate and score with all heads.

        Args:
            model: an encoder-decoder of transformers, see `attention_layers`.
            tokenizer: the model's.
            pairs: sources, and what human translators wrote.
            language: of the translations, which chooses sacreBLEU's tokeniser.
            tokenized: the text is already split into tokens.
            lowercase: score without regard to case.
            progress: show a bar for each translation.
            **settings: of `translate`: `target_language`, `batch_tokens`, settings of the search.

        Raises:
            ValueError: there is nothing to translate, or the model cannot be masked.
        """
        self._layers = attention_layers(model)
        self._model, self._tokenizer = model, tokenizer
        self._sources, references = [source for source, _ in pairs], [target for _, target in pairs]
        check_aligned(self._sources, references)
        self._settings = {"progress": progress, **settings}
        tokenize = sacrebleu_tokenizer(language, tokenized)
        self._metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True, references=[references])
        self._whole = self._translations()
        self.bleu = self._metric.corpus_score(self._whole, None).score
        """Of the whole model."""
        self.signature = str(self._metric.get_signature())

    def without(self, *heads: HeadName) -> Worth:
        """Translate and score without these heads."""
        with masked(self._model, heads):
            found = self._translations()
        if found == self._whole:
            return Worth(self.bleu, 1.0)  # the test below would call no difference a sure one
        systems: list[tuple[str, Sequence[str]]] = [("all heads", self._whole), ("without", found)]
        test = PairedTest(systems, {"BLEU": self._metric}, None, test_type="bs", n_samples=RESAMPLES)
        result = cast(Result, test()[1]["BLEU"][1])
        return Worth(float(result.score), cast(float, result.p_value))

    def all_but(self, head: HeadName) -> Worth:
        """Translate and score without any other head of this head's layer."""
        (heads,) = [place.heads for place in self._layers if (place.kind, place.layer) == head[:2]]
        return self.without(*(head._replace(head=other) for other in range(heads) if other != head.head))

    def _translations(self) -> list[str]:
        return translate(self._model, self._tokenizer, self._sources, **self._settings)


def _heads(module: nn.Module) -> int:
    """The number of heads of an attention module; 0 for another module."""
    number = getattr(module, "num_heads", None) or getattr(module, "n_heads", None)
    return number if isinstance(number, int) else 0


def _projection(module: nn.Module) -> nn.Module | None:
    """The output projection of an attention module."""
    children = dict(module.named_children())
    return children.get("out_proj", children.get("o"))


def _checked(kind: Kind, layer: int, module: nn.Module) -> AttentionLayer:
    projection, heads = _projection(module), _heads(module)
    if type(projection) is not nn.Linear:
        raise ValueError(
            f"The output projection of {type(module).__name__} is a {type(projection).__name__}, whose heads cannot be masked; "
            "load the model without packing, adapters or quantisation."
        )
    return AttentionLayer(kind, layer, projection, heads)
