"""The models without a decoder as one ONNX graph, by PyTorch's own exporter: classes, answers, hidden words, states.

```python
export_encoder_onnx("runs/sst2/averaged", "exported")
session, tokenizer = onnxruntime.InferenceSession("exported/model.onnx"), AutoTokenizer.from_pretrained("exported")
session.run(None, dict(tokenizer(["One text.", "Another."], padding=True, return_tensors="np")))
```
"""

from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from .. import modeling_tasks
from ..files.atomic_folder import new_folder
from ..task_of_folder import ON_ENCODER, task_of, writes_text
from ..translation.loading import check_tokenizer, load_encoder
from .onnx_exporter import quiet, require_onnx

MODEL = "model.onnx"

TEXTS = ("Good morning.", "Two small dogs run along the beach.", "I think, therefore I am.", "On 3 May 2017 it cost 12.50 euros.")
"""What the graph is tried on."""

TOLERANCE = 1e-4
"""Of what ONNX Runtime finds, relative to the largest value; rounding in float32 is a tenth of it."""


def is_encoder(folder: Path) -> bool:
    """Whether `folder` holds a model without a decoder."""
    return not writes_text(task_of(folder))


def export_encoder_onnx(folder: str | Path, out: str | Path) -> Path:
    """Write the model on the encoder in `folder` as `model.onnx` in float32, for any number of texts and tokens, with tokenizer and config.

    The graph takes `input_ids` and `attention_mask`, [B, S], and gives what the model gives, under the same names. It is run on
    texts, alone and together, and compared with the model before it gets its place.

    Args:
        folder: a trained model, as `save_pretrained` leaves it.
        out: a new folder.

    Returns:
        `out`.

    Raises:
        FileNotFoundError: `folder` does not exist, or a file is missing in it.
        FileExistsError: there is something at `out`.
        ValueError: a file is damaged; `folder` holds another kind of model, or one with an attention window; or ONNX Runtime finds
            something else than the model.
        ImportError: the extra `browser` is not installed.
    """
    require_onnx("An export to ONNX")
    folder = Path(folder)
    tokenizer = load_encoder(folder).tokenizer
    named = next((name for name, task in ON_ENCODER.items() if task == task_of(folder)), None)
    if named is None:
        raise ValueError(f"{folder} holds a model with a decoder; this export is for those without one.")
    with new_folder(out) as unfinished, quiet(), torch.no_grad():
        model, loading = getattr(modeling_tasks, named).from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
        if missing := loading["missing_keys"]:
            raise ValueError(f"The weights in {folder} lack {', '.join(sorted(missing))}; they are not those of its config.json.")
        check_tokenizer(folder, tokenizer, model.config)
        if model.config.attention_window is not None:
            raise ValueError(
                f"{folder} attends within a window of {model.config.attention_window} positions, in as many blocks as a text needs, and "
                "a graph has a fixed number of them; use it with this package or the code in its folder."
            )
        model.eval()
        inputs = _inputs(tokenizer, list(TEXTS))
        axes = {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens")}
        torch.onnx.export(
            model, (), unfinished / MODEL, kwargs=inputs, output_names=list(model(**inputs).keys()), dynamo=True, verbose=False,
            external_data=False, dynamic_shapes=dict.fromkeys(inputs, axes),
        )  # fmt: skip
        _compare(model, tokenizer, unfinished / MODEL)
        model.config.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
    return Path(out)


def _inputs(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> dict[str, torch.Tensor]:
    encoded = tokenizer(texts, padding=True, return_tensors="pt")
    return {name: encoded[name] for name in ("input_ids", "attention_mask")}


def _compare(model: Any, tokenizer: PreTrainedTokenizerBase, graph: Path) -> None:
    """Run the graph on a batch, on a short text alone, and on a long one, and require what the model finds at all positions of text."""
    import onnxruntime

    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    for texts in (list(TEXTS), [TEXTS[0]], [" ".join(TEXTS)]):
        inputs = _inputs(tokenizer, texts)
        found = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
        expected = model(**inputs)
        for (name, value), other in zip(expected.items(), found, strict=True):
            difference = (value - torch.from_numpy(other)).abs()
            if tuple(value.shape[:2]) == tuple(inputs["attention_mask"].shape):
                shape = [*inputs["attention_mask"].shape, *[1] * (value.ndim - 2)]
                difference = difference * inputs["attention_mask"].view(shape)
            if not difference.max() <= TOLERANCE * value.abs().max():
                raise ValueError(
                    f"ONNX Runtime finds other {name} than the model, by {difference.max():.2g}; nothing was written. Please report it."
                )
