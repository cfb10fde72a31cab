"""What all uses of PyTorch's own exporter to ONNX share."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


def require_onnx(purpose: str) -> None:
    """Raise an `ImportError` that names the extra to install, if a package is missing that `purpose` needs."""
    try:
        import onnx
        import onnxruntime
        import onnxscript
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs {error.name}; install the extra: pip install 'vaswani_transformer[browser]'.", name=error.name
        ) from error
    del onnx, onnxruntime, onnxscript


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the exporters' remarks on their own insides from the user."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
