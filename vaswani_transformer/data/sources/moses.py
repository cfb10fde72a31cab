"""A zip file with two line-aligned texts, as OPUS offers them under "Moses"."""

import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .corpus import Corpus, SentencePair, existing
from .lines import aligned
from .text import decoded_lines


@dataclass(frozen=True, kw_only=True)
class MosesCorpus(Corpus):
    """One file `path`, as it was downloaded; of the files in it, those are read whose names end in `.` and the code of a language."""

    format: Literal["moses"] = "moses"
    path: str

    @property
    def title(self) -> str:
        return self.path

    def _content(self, code: Callable[[object], str]) -> str:
        return f"the line-aligned files of {code(self.path)}"

    def files(self, root: Path) -> dict[str, Path]:
        return {self.path: root / self.path}

    def _pairs(self, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
        path = existing(root / self.path)
        try:
            with zipfile.ZipFile(path) as archive, ExitStack() as stack:
                members = [_member(archive, path, language) for language in languages]
                streams = [(f"{path}/{member}", stack.enter_context(archive.open(member))) for member in members]
                yield from aligned([(name, decoded_lines(stream, name)) for name, stream in streams], self.path)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise ValueError(f"{path} cannot be unpacked ({error}); it is damaged, incomplete or no zip file: fetch it again.") from error


def _member(archive: zipfile.ZipFile, path: Path, language: str) -> str:
    names = archive.namelist()
    suffix = f".{_plain_code(language)}"
    found = [name for name in names if _plain_code(name).endswith(suffix)]
    if len(found) == 1:
        return found[0]
    listed = f"{', '.join(names[:10])}{' ...' if len(names) > 10 else ''}"
    if not found:
        raise ValueError(f"{path} holds no file that ends in .{language}, only {listed}; set source_language and target_language.")
    raise ValueError(f"{path} holds several files that end in .{language} ({listed}); unpack it, and name one pair with `format: lines`.")


def _plain_code(name: str) -> str:
    """OPUS writes `pt_br` for pt-BR."""
    return name.lower().replace("-", "_")
