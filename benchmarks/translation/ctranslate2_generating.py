"""CTranslate2 behind `generate`, so that it searches as the checkpoint says: `CTranslate2Model`."""

from benchmarks.translation.generating_contestant import GeneratingContestant
from vaswani_transformer.interop.ctranslate2 import CTranslate2Model


def load(folder: str, *, device: str, threads: int, extra_length: int) -> GeneratingContestant:
    """A folder that `export_ctranslate2` has written; `extra_length`: see `GeneratingContestant`."""
    model = CTranslate2Model.from_pretrained(folder, device=device, intra_threads=threads)
    return GeneratingContestant(model, extra_length)
