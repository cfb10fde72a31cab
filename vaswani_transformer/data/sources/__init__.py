"""Where sentence pairs come from: one class for each format of a corpus, in a file of its own.

A class declares the keys that a recipe may give, reads the pairs, lists its files and describes itself for the card. To add a format, write
such a class and name it in `AnyCorpus`.
"""

from typing import Any, cast

from ...strict_yaml import parse_value
from .babi import BabiCorpus
from .builtin import BuiltinCorpus
from .conll import ConllCorpus
from .corpus import Corpus
from .disk import DiskCorpus
from .hub import HubCorpus
from .labelled_lines import LabelledLinesCorpus
from .lines import LinesCorpus
from .moses import MosesCorpus
from .plain_lines import PlainLinesCorpus
from .squad import SquadCorpus
from .table import TableCorpus
from .tmx import TmxCorpus

AnyCorpus = (
    BuiltinCorpus
    | LinesCorpus
    | TableCorpus
    | HubCorpus
    | DiskCorpus
    | TmxCorpus
    | MosesCorpus
    | LabelledLinesCorpus
    | ConllCorpus
    | BabiCorpus
    | SquadCorpus
    | PlainLinesCorpus
)
"""All formats; a recipe chooses by the key `format`."""


def parse_corpus(tree: dict[str, Any]) -> Corpus:
    """A corpus from the mapping that a recipe or an `evaluation.json` holds.

    Raises:
        ValueError: there is no such format, or a key does not belong to it.
    """
    return cast(Corpus, parse_value(AnyCorpus, tree, "corpus"))
