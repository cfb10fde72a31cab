"""A data set that the library `datasets` has saved in a folder."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .corpus import DatasetName, SentencePair
from .rows import ROWS_PER_READ, RowsCorpus, batched_rows


@dataclass(frozen=True, kw_only=True)
class DiskCorpus(RowsCorpus):
    """The folder `path`, as `save_to_disk` wrote it; `split` is one of its splits, if it has any."""

    format: Literal["disk"] = "disk"
    path: str
    split: str | None = None

    @property
    def title(self) -> str:
        return " ".join(filter(None, (self.path, self.split)))

    def _content(self, code: Callable[[object], str]) -> str:
        return f"saved data set {code(self.path)}" + (f", split {code(self.split)}" if self.split else "")

    @property
    def dataset_name(self) -> DatasetName:
        return DatasetName(split=self.split)

    def files(self, root: Path) -> dict[str, Path]:
        folder = Path(self.path, self.split or "")
        return {str(folder / file.name): file for file in sorted((root / folder).glob("*.arrow"))}

    def _pairs(self, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
        import datasets  # takes seconds to import, and only this format needs it

        folder = root / self.path
        if not folder.is_dir():
            raise FileNotFoundError(
                f"There is no folder {folder}; check `path` and `data.root` in the recipe (looked for in {folder.parent.absolute()})."
            )
        try:
            found = datasets.load_from_disk(str(folder))
        except (OSError, ValueError) as error:
            raise ValueError(f"{folder} holds no data set that `save_to_disk` wrote, or only a part of one: {error}") from error
        if isinstance(found, datasets.DatasetDict):
            if self.split not in found:
                raise ValueError(
                    f"{folder} has the splits {', '.join(found)}; set `split` in the recipe (--split of `vaswani new`) to one of them."
                )
            found = found[self.split]
        elif self.split is not None:
            raise ValueError(f"{folder} is a data set without splits; leave out `split: {self.split}`.")
        return self._pairs_of(batched_rows(found.iter(ROWS_PER_READ)), languages, self.title)
