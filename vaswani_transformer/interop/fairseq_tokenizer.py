"""fairseq's dictionaries and BPE codes as transformers' stock `FSMTTokenizer`.

It segments as subword-nmt and fastBPE do, behind Moses' tokeniser, and knows a dictionary for each language. A fast tokenizer could not
follow: where a dictionary was pruned, or a merge is only a step to a longer one, subword-nmt's segment becomes `<unk>`, and the
`tokenizers` library demands an id of its own for it.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from transformers import FSMTTokenizer, PreTrainedTokenizerBase

CONTROL_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
"""What fairseq puts before a dictionary's own entries."""

END_OF_WORD = "</w>"

OVERWRITE = " #fairseq:overwrite"
"""Behind an entry of a dictionary that takes the place of an earlier one of the same name, whose id stays unused."""

Merge = tuple[str, str]


def read_dictionary(path: Path) -> list[str]:
    """The symbols of a `dict.*.txt` in the order of their ids.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is empty or no dictionary; the sentence names the line.
    """
    symbols = list(CONTROL_SYMBOLS)
    ids = {symbol: number for number, symbol in enumerate(symbols)}
    for number, line in _lines(path, "a dictionary of fairseq's"):
        entry = line.rstrip().removesuffix(OVERWRITE)
        symbol, _, count = entry.rpartition(" ")
        if not symbol or not count.isdecimal():
            raise ValueError(f"{path}:{number} is not a symbol and its count ({line[:40]!r}); this is no dictionary of fairseq's.")
        if symbol in ids and entry == line.rstrip():
            raise ValueError(
                f"{path}:{number} repeats the symbol {symbol!r}, so its ids are not a model's; take the dictionary that "
                "was published with the checkpoint."
            )
        if symbol in ids:
            symbols[ids[symbol]] = f"<overwritten {ids[symbol]}>"
        ids[symbol] = len(symbols)
        symbols.append(symbol)
    return symbols


def read_codes(path: Path) -> list[Merge]:
    """The merges of a file of BPE codes by subword-nmt or fastBPE, most frequent first.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is empty, no such file, or of subword-nmt's first version, which splits words differently.
    """
    merges: dict[Merge, None] = {}
    for number, line in _lines(path, "BPE codes"):
        version = re.fullmatch(r"#version: (\S+)", line) if number == 1 else None
        parts = line.split(" ")
        if version is None and (len(parts) not in (2, 3) or not all(parts) or (len(parts) == 3 and not parts[2].isdecimal())):
            raise ValueError(f"{path}:{number} is not a pair of symbols ({line[:40]!r}); these are no BPE codes.")
        if (version and version[1] == "0.1") or parts[1] == END_OF_WORD:
            raise ValueError(
                f"{path} has codes of subword-nmt's version 0.1, in which the end of a word is a symbol of its own; "
                "no tokenizer of transformers splits words in that way."
            )
        if version is None:
            merges.setdefault((parts[0], parts[1]))
    return list(merges)


def check_codes(path: Path, merges: list[Merge], symbols: set[str]) -> None:
    """Refuse codes most of whose segments no dictionary has: they are another model's.

    Raises:
        ValueError: the sentence says how many.
    """
    known = {_piece(symbol) for symbol in symbols} | {part for merge in merges for part in merge}
    strange = sum(first + second not in known for first, second in merges)
    if 2 * strange > len(merges):
        raise ValueError(
            f"{strange:,} of the {len(merges):,} merges in {path} make segments that no dictionary has; the codes are another model's."
        )


def fairseq_tokenizer(
    source: list[str],
    target: list[str],
    merges: list[Merge],
    languages: tuple[str, str],
    lowercase: bool = False,
) -> PreTrainedTokenizerBase:
    """The tokenizer of a model: text as people write it, through Moses' tokeniser and BPE, to fairseq's ids, `</s>` at the end.

    Args:
        source: see `read_dictionary`.
        target: the same list where the dictionary is joined.
        merges: see `read_codes`.
        languages: codes of source and target, such as ("en", "de").
        lowercase: whether the model has learned from lower-cased text.

    Raises:
        ValueError: two symbols of a dictionary cannot be told apart.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {
            "src_vocab_file": folder / "vocab-src.json",
            "tgt_vocab_file": folder / "vocab-tgt.json",
            "merges_file": folder / "merges.txt",
        }
        for symbols, file in ((source, files["src_vocab_file"]), (target, files["tgt_vocab_file"])):
            vocabulary = {_piece(symbol): number for number, symbol in enumerate(symbols)}
            if len(vocabulary) != len(symbols):
                raise ValueError(
                    f"A dictionary has a symbol that ends in {END_OF_WORD}, which BPE writes behind a word; "
                    "such a model cannot be converted."
                )
            file.write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
        files["merges_file"].write_text("".join(f"{first} {second}\n" for first, second in merges), encoding="utf-8")
        return FSMTTokenizer(
            langs=list(languages),
            do_lower_case=lowercase,
            eos_token="</s>",
            split_special_tokens=True,
            **{key: str(file) for key, file in files.items()},
        )


def _piece(symbol: str) -> str:
    """subword-nmt marks a piece that the word continues after (`hou@@`), FSMT's tokenizer the last piece of a word (`se</w>`)."""
    if symbol in CONTROL_SYMBOLS:
        return symbol
    return symbol[:-2] if symbol.endswith("@@") and len(symbol) > 2 else symbol + END_OF_WORD


def _lines(path: Path, what: str) -> Iterator[tuple[int, str]]:
    """The lines of a file that stands for `what`, with their numbers."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}, which should hold {what}.")
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty, 0 bytes long, and should hold {what}; copy it again.")
    try:
        # not by `splitlines`, which would part lines at characters that stand in symbols
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text and should hold {what}; copy it again.") from error
    yield from enumerate(lines, start=1)
