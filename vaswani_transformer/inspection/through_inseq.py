"""The scores of inseq's attribution methods, for tokens and vectors that are given, with everything put back that inseq changes."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .words import control_ids

BY_GRADIENT = ("saliency", "input_x_gradient", "integrated_gradients")
"""The methods that need gradients."""

_POSITIONS_AT_ONCE = 2**22
"""Pairs of tokens that a batch of changed inputs may have: every layer and head has a weight for each."""


class Scores(NamedTuple):
    """One row for each token that is written."""

    source: Tensor
    """`[T, S]`."""
    prefix: Tensor
    """`[T, T]`; 0 for what the step has not read."""


class _Text(NamedTuple):
    """One side of a translation."""

    ids: Tensor
    """`[1, L]`."""
    mask: Tensor
    baseline: Tensor
    """`[1, L]`: the token that stands for none; control tokens stay."""


def check_inseq() -> None:
    """Refuse to go on without inseq.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import inseq  # noqa: F401
    except ImportError as error:
        raise ImportError("inseq is not installed: `pip install inseq`, or install this package with its extra `attribution`.") from error


def inseq_scores(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, read: dict[str, Tensor], ids: Tensor, method: str, steps: int
) -> Scores:
    """The scores of inseq's `method`.

    inseq is handed ids and vectors, not text. Handed text, it would cut it into tokens by itself, drop every token that is written as the
    padding is, and translate with Hugging Face's settings; and it would multiply the vectors of Marian's decoder by sqrt(d_model) twice.

    Args:
        model: an encoder-decoder at rest, which runs its eager formula.
        read: `input_ids` and `attention_mask`, `[1, S]`.
        ids: `[1 + T]`: what the decoder begins with, then what it writes.
        method: a name of inseq's.
        steps: of integrated gradients.

    Raises:
        ValueError: the model computes something else from vectors than from ids.
    """
    none = _stand_in(tokenizer)
    controls = control_ids(tokenizer)
    source, target = (
        _Text(one, mask, torch.tensor([[number if number in controls else none for number in one[0].tolist()]], device=one.device))
        for one, mask in ((read["input_ids"], read["attention_mask"]), (ids[None], torch.ones_like(ids[None])))
    )
    by_gradient = method in BY_GRADIENT
    gradients = torch.enable_grad() if by_gradient else torch.no_grad()
    on_device = torch.cuda.device(model.device) if model.device.type == "cuda" else nullcontext()
    with on_device, _put_back(model, tokenizer), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapper = _wrapped(model, tokenizer, method)
        with torch.no_grad():
            batches = _batches(wrapper, model, source, target)
        with gradients:
            for batch in batches:
                batch.input_embeds = batch.input_embeds.requires_grad_(by_gradient)
            found = wrapper.attribution_method.prepare_and_attribute(
                *batches,
                show_progress=False,
                attribute_target=True,
                attribution_args=_settings(method, steps, batches),
            )[0][0]
    return _rows(found.source_attributions, found.target_attributions, method)


def _settings(method: str, steps: int, batches: list[Any]) -> dict[str, Any]:
    """What the methods of captum, which inseq calls, are to be told."""
    source, target = (batch.input_embeds.shape for batch in batches)
    at_once = max(1, _POSITIONS_AT_ONCE // (source[1] + target[1]) ** 2)
    if method == "integrated_gradients":
        return {"n_steps": steps, "internal_batch_size": min(steps, at_once)}
    if method == "occlusion":
        return {"sliding_window_shapes": ((1, source[2]), (1, target[2])), "perturbations_per_eval": min(64, at_once)}
    return {}


def _rows(source: Tensor, target: Tensor, method: str) -> Scores:
    """From inseq's `[keys, T, ...]` to a number for each pair: `[T, keys]`."""
    rows = []
    for scores in (source, target[: source.shape[1]]):
        scores = scores.detach().float().cpu()
        if method == "saliency":
            scores = scores.norm(dim=-1)
        elif method in ("input_x_gradient", "integrated_gradients"):
            scores = scores.sum(-1)
        elif method == "attention":
            scores = scores.mean((-2, -1))
        rows.append(scores.T.nan_to_num(0.0))  # inseq has no number for what is written later
    return Scores(rows[0], rows[1].tril())


def _wrapped(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, method: str) -> Any:
    """inseq's model, without the spinner of its `load_model`."""
    from inseq.models import HuggingfaceModel

    if not isinstance(model, PreTrainedModel):
        raise ValueError(f"inseq attributes models of transformers only, and {type(model).__name__} is none; choose value_zeroing.")
    return HuggingfaceModel.load(model, method, tokenizer, device=model.device.type)


def _batches(wrapper: Any, model: PreTrainedModel, source: _Text, target: _Text) -> list[Any]:
    """What inseq reads of both sides, with the vectors that a stack makes of its ids.

    Some stacks multiply the vectors that they are given by sqrt(d_model) themselves, others expect them multiplied; in Marian, the decoder
    does and the encoder does not. What gives the probabilities that the ids give is right.
    """
    from inseq.data import Batch, BatchEmbedding, BatchEncoding, EncoderDecoderBatch

    stacks = (model.get_encoder(), model.get_decoder())
    expected = model(
        input_ids=source.ids, attention_mask=source.mask, decoder_input_ids=target.ids, use_cache=False, return_dict=True
    ).logits.softmax(-1)
    tried: list[tuple[float, list[Any]]] = []
    for scales in product(*(dict.fromkeys([float(getattr(stack, "embed_scale", 1.0)), 1.0]) for stack in stacks)):
        batches = []
        for text, stack, scale in zip((source, target), stacks, scales, strict=True):
            table = stack.get_input_embeddings()
            names = [[str(number) for number in text.ids[0].tolist()]]  # never the padding's name, whose tokens inseq drops
            vectors = BatchEmbedding(table(text.ids) * scale, table(text.baseline) * scale)
            batches.append(Batch(BatchEncoding(text.ids, text.mask, names, text.baseline), vectors))
        found = wrapper.get_forward_output(EncoderDecoderBatch(*batches)).logits.softmax(-1)
        tried.append((float((found - expected).abs().max()), batches))
    difference, best = min(tried, key=lambda one: one[0])
    if not difference < torch.finfo(expected.dtype).eps ** 0.5:
        raise ValueError(
            f"{type(model).__name__} gives other probabilities for the vectors of its tokens than for the tokens, so inseq cannot "
            "attribute it; choose value_zeroing."
        )
    return best


def _stand_in(tokenizer: PreTrainedTokenizerBase) -> int:
    """The id that stands for no token: the unknown one or, without one, the padding."""
    names = tokenizer.special_tokens_map
    name = names.get("unk_token") or names.get("pad_token")
    if name is None:
        raise ValueError("The tokenizer has neither an unknown nor a padding token to stand for none; set its pad_token.")
    return int(tokenizer.convert_tokens_to_ids(str(name)))


@contextmanager
def _put_back(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Iterator[None]:
    """Put back what inseq sets: the model's configuration and gradients, and the tokenizer's special tokens."""
    config, names = dict(vars(model.config)), tokenizer.special_tokens_map
    gradients = [(parameter, parameter.grad) for parameter in model.parameters() if parameter.grad is not None]
    tokens = {name: names.get(name) for name in ("pad_token", "unk_token")}
    for name, token in tokens.items():
        if token is None:  # inseq does the same, after transformers has logged that there is none
            setattr(tokenizer, name, tokenizer.convert_ids_to_tokens(_stand_in(tokenizer)))
    try:
        yield
    finally:
        for name, token in tokens.items():
            setattr(tokenizer, name, token)
        vars(model.config).clear()
        vars(model.config).update(config)
        for parameter, gradient in gradients:
            parameter.grad = gradient
