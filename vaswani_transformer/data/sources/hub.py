"""A data set of the Hugging Face Hub."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from huggingface_hub.utils import HFValidationError, validate_repo_id

from .corpus import DatasetName, SentencePair
from .rows import ROWS_PER_READ, RowsCorpus, batched_rows


@dataclass(frozen=True, kw_only=True)
class HubCorpus(RowsCorpus):
    """A data set `path` of the Hub, in `translation` format or with a column for each language.

    `name` is its configuration (e.g. `de-en`), `split` one of its splits. `streaming` fetches it while it is read and keeps no copy; what
    is prepared from it is then not shared with other runs.
    """

    format: Literal["hub"] = "hub"
    path: str
    split: str
    name: str | None = None
    streaming: bool = False

    @property
    def title(self) -> str:
        return " ".join(filter(None, (self.path, self.name, self.split)))

    def _content(self, code: Callable[[object], str]) -> str:
        configuration = f", configuration {code(self.name)}" if self.name else ""
        address = f"https://huggingface.co/datasets/{quote(self.path)}"
        shown = f"[{code(self.path)}]({address})" if self._can_be_on_the_hub else f"in the folder {code(self.path)}"
        return f"data set {shown}{configuration}, split {code(self.split)}"

    @property
    def dataset_name(self) -> DatasetName:
        return DatasetName(self.path if self._can_be_on_the_hub else None, self.name, self.split)

    @property
    def _can_be_on_the_hub(self) -> bool:
        try:
            validate_repo_id(self.path)
        except HFValidationError:
            return False
        return True

    @property
    def is_streamed(self) -> bool:
        return self.streaming

    def _pairs(self, root: Path, languages: tuple[str, str]) -> Iterator[SentencePair]:
        import datasets  # takes seconds to import, and only this format needs it

        location = str(root / self.path) if (root / self.path).exists() else self.path
        try:
            rows = datasets.load_dataset(location, self.name, split=self.split, streaming=self.streaming)
        except (datasets.exceptions.DatasetsError, ConnectionError, ValueError) as error:
            raise ValueError(f"The data set {self.title} cannot be loaded; check path, name and split in the recipe. {error}") from error
        return self._pairs_of(batched_rows(rows.iter(ROWS_PER_READ)), languages, self.title)
