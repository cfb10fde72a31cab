"""A checkpoint by its name, ready to translate."""

from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

_OTHER_FRAMEWORKS = ["*.h5", "*.msgpack", "*.ot", "*.onnx", "*.tflite"]


def local_folder(model_name: str | Path) -> Path:
    """Where the checkpoint lies, after a download if need be.

    Raises:
        FileNotFoundError: there is no such model.
    """
    if Path(model_name).is_dir():
        return Path(model_name)
    try:
        return Path(snapshot_download(str(model_name), ignore_patterns=_OTHER_FRAMEWORKS))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError) as error:
        raise FileNotFoundError(f"{model_name} is neither a folder nor a repository that the Hub can give us.") from error


def load_translator(folder: Path, device: torch.device | None = None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a checkpoint and its tokenizer onto a device.

    Args:
        folder: config, weights and tokenizer.
        device: the accelerator, if there is one, by default.

    Raises:
        ValueError: the tokenizer knows tokens for which the model has no embedding.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype="auto")
    if len(tokenizer) > model.config.vocab_size:
        raise ValueError(
            f"The tokenizer in {folder} has {len(tokenizer)} tokens but the model embeds only {model.config.vocab_size}; "
            "they do not belong together: take both from the same run."
        )
    return model.to(device or torch.accelerator.current_accelerator() or torch.device("cpu")), tokenizer
