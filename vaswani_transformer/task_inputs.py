"""Whether texts and labels fit a model of `modeling_tasks.py`, and what stands for a text. This file travels with checkpoints.

Shapes: B texts, S positions, D = d_model, C classes.
"""

import torch

from .layers import check_ids


def pool(states: torch.Tensor, attention_mask: torch.Tensor | None, kind: str) -> torch.Tensor:
    """One state `[B, D]` for each text: the mean of its `states` `[B, S, D]`, or the last one; padding, on either side, takes no part.

    Args:
        states: the encoder's.
        attention_mask: `[B, S]`, 0 on padding, or `None`.
        kind: `"mean"` or `"last"`.
    """
    if attention_mask is None:
        return states.mean(1) if kind == "mean" else states[:, -1]
    real = attention_mask != 0
    if kind == "mean":
        exact = torch.promote_types(states.dtype, torch.float32)  # a sum over a long text does not fit into float16
        return (states.masked_fill(~real[..., None], 0).sum(1, dtype=exact) / real.sum(1, keepdim=True)).to(states.dtype)
    last = torch.where(real, torch.arange(states.shape[1], device=states.device), 0).argmax(1)
    return states[torch.arange(len(states), device=states.device), last]


def check_texts(texts: torch.Tensor | None, attention_mask: torch.Tensor | None) -> None:
    """Raise a `ValueError` for a text without any token: nothing could stand for it. Only on the CPU, where it needs no synchronisation.

    Args:
        texts: `[B, S]` ids or `[B, S, D]` embeddings; `None` is for the encoder to refuse.
        attention_mask: `[B, S]`, 0 on padding.
    """
    if texts is None or texts.device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return
    if texts.ndim < 2:
        raise ValueError(f"The texts have the shape {tuple(texts.shape)}, and a batch has two dimensions or more; add one with `[None]`.")
    if attention_mask is None:
        empty = [] if texts.shape[1] else [0]
    elif attention_mask.shape != texts.shape[:2]:
        raise ValueError(
            f"`attention_mask` has the shape {tuple(attention_mask.shape)} and the texts {tuple(texts.shape[:2])}; they must be equal."
        )
    else:
        empty = (attention_mask == 0).all(1).nonzero().flatten().tolist()
    if empty:
        raise ValueError(
            f"Text {empty[0]} of the batch has no token; the tokenizer gives even an empty text `</s>`, so keep `add_special_tokens=True`."
        )


def problem_type(labels: torch.Tensor, num_labels: int) -> str:
    """What labels without a declared type are for, by transformers' own rule."""
    if num_labels == 1:
        return "regression"
    return "multi_label_classification" if labels.is_floating_point() else "single_label_classification"


def fitting_labels(labels: torch.Tensor, logits: torch.Tensor, problem: str) -> torch.Tensor:
    """`labels` of whole texts as the loss takes them, beside `logits` `[B, C]`.

    Raises:
        ValueError: their shape is not the problem's, or there is no such class.
    """
    texts, classes = logits.shape
    one_a_text = problem == "single_label_classification" or (problem == "regression" and classes == 1)
    wanted = (texts,) if one_a_text else (texts, classes)
    if one_a_text and labels.shape == (texts, 1):
        labels = labels.squeeze(1)
    if labels.shape != wanted:
        raise ValueError(
            f"`labels` has the shape {tuple(labels.shape)}, and {problem} with {texts} texts and `num_labels` = {classes} needs {wanted}; "
            "for another problem, set `problem_type` in the configuration."
        )
    if problem != "single_label_classification":
        if problem == "multi_label_classification":
            check_shares(labels)
        labels = labels.to(logits.device, logits.dtype)
        return labels.unsqueeze(1) if one_a_text else labels
    if labels.is_floating_point():
        raise ValueError(
            f"`labels` are {labels.dtype}, and classes are whole numbers; pass integers, or set `problem_type` in the configuration to "
            '"regression" or "multi_label_classification".'
        )
    check_classes(labels, classes)
    return labels.long()


def fitting_token_labels(labels: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """`labels` `[B, S]` of tokens, -100 where nothing is to be predicted, as the loss takes them, beside `logits` `[B, S, C]`.

    Raises:
        ValueError: their shape is not that of the tokens, they are no whole numbers, or there is no such class.
    """
    if labels.shape != logits.shape[:-1]:
        raise ValueError(
            f"`labels` has the shape {tuple(labels.shape)} and the tokens {tuple(logits.shape[:-1])}; each token needs a label, -100 where "
            "nothing is to be predicted."
        )
    if labels.is_floating_point():
        raise ValueError(f"`labels` are {labels.dtype}, and classes are whole numbers; pass integers.")
    check_classes(labels, logits.shape[-1])
    return labels.long()


def check_classes(labels: torch.Tensor, classes: int) -> None:
    """Raise a `ValueError` for a label that is neither one of 0 to `classes` - 1 nor -100."""
    remedy = "labels are numbered from 0, `num_labels` says how many there are, and -100 marks what is not to be predicted"
    check_ids(labels.masked_fill(labels == -100, 0), classes, "`labels` has", remedy)


def check_shares(labels: torch.Tensor) -> None:
    """Raise a `ValueError` for a label outside of 0 to 1, where a text has several. Only on the CPU, where it needs no synchronisation."""
    if labels.device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return
    if (wrong := labels[~((labels >= 0) & (labels <= 1))]).numel():
        raise ValueError(f"`labels` has {wrong[0].item()}, and each class of a text has a label between 0, it is none, and 1, it is one.")


def fitting_positions(
    start_positions: torch.Tensor | None,
    end_positions: torch.Tensor | None,
    logits: torch.Tensor,
    attention_mask: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both positions of the answers, `[B]` each, beside `logits` `[B, S]`; one outside of its text becomes S, which counts for nothing.

    Raises:
        ValueError: one is missing, has another shape or type, or is negative.
    """
    if start_positions is None or end_positions is None:
        missing = "start_positions" if start_positions is None else "end_positions"
        raise ValueError(f"An answer has a first and a last token, and `{missing}` is missing; pass both, or neither.")
    texts, size = logits.shape
    # One place more than the text has, for all that lies beyond it
    is_padding = None if attention_mask is None else torch.nn.functional.pad(attention_mask.to(logits.device) == 0, (0, 1))
    found = []
    for name, positions in (("start_positions", start_positions), ("end_positions", end_positions)):
        flat = positions.squeeze(-1) if positions.ndim > 1 else positions
        if flat.shape != (texts,):
            raise ValueError(f"`{name}` has the shape {tuple(positions.shape)}, and {texts} texts need ({texts},).")
        if flat.is_floating_point():
            raise ValueError(f"`{name}` are {flat.dtype}, and positions are whole numbers; pass integers.")
        # What lies beyond the text counts for nothing, as in all question answering of transformers, also where a longer text beside it
        # has made it padding.
        flat = flat.long().clamp(max=size)
        check_ids(flat, size + 1, f"`{name}` has", "positions are counted from 0")
        flat = flat.to(logits.device)
        if is_padding is not None:
            flat = flat.masked_fill(is_padding.gather(1, flat.clamp(min=0)[:, None]).squeeze(1), size)
        found.append(flat)
    return found[0], found[1]


__all__ = ["check_texts", "fitting_labels", "fitting_positions", "fitting_token_labels", "pool", "problem_type"]
