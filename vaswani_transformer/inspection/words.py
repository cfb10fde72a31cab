"""What the tokens of a sentence spell, as a person reads it, and which of them make one word.

A word is what the default rules of Unicode Standard Annex #29 make one: letters with what stands between two of them as in "don't" and
"l'eau", and numbers such as 1,000.5. Hyphens, slashes and all other punctuation are words of their own; so is "...", the same mark
again. In writing without spaces (Chinese, Japanese, Thai), where these rules part all or most characters, a word is what the tokenizer
made one token of, or one character. A token that touches several words joins them, and white space belongs to the word behind it.
A control token is always a word of its own.
"""

import html
import json
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import regex
from tokenizers import pre_tokenizers
from transformers import ByT5Tokenizer, FSMTTokenizer, PreTrainedTokenizerBase

Places = tuple[tuple[int, ...], ...]
"""For each word, the places of its tokens."""

Side = Literal["source", "target"]

_BOUNDARY = regex.compile(r"(?V1w)\b")
_BYTE = regex.compile(r"<0x([0-9A-F]{2})>")
_BYTES = regex.compile(r"(?:<0x[0-9A-F]{2}>)+")
_ENTITY = regex.compile(r"&(?:amp|lt|gt|quot|apos|#\d+);")
_MARK_ALONE = regex.compile(r"◌(?=\p{M})")
_SIGNS = {" ": "␣", "\n": "↵", "\t": "⇥"}
_UNSEEN = ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp")


class Spelling(NamedTuple):
    """What one token stands for: its UTF-8, which need not end with a character, or `None` for a control token."""

    name: str
    content: bytes | None


def words_of(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], side: Side = "target") -> Places:
    """The places in `ids` of each word's tokens, see above; every place is in one word."""
    found: list[tuple[int, ...]] = []
    for first, spelled in _runs(_spellings(tokenizer, ids, side)):
        if spelled[0].content is None:
            found.append((first,))
        else:
            found += [tuple(first + place for place in places) for places in _grouped(_contents(spelled))]
    return tuple(found)


def units_of(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], side: Side = "target") -> tuple[str, ...]:
    """A readable label for each of `ids`: what it spells, without the space that begins a word.

    A byte of a character that the token does not have as a whole is `<0xC3>`, white space alone is `␣`, `↵` or `⇥`, and other characters
    that cannot be seen are `<U+200B>`. A control token is itself.
    """
    found: list[str] = []
    for _, spelled in _runs(_spellings(tokenizer, ids, side)):
        if spelled[0].content is None:
            found.append(spelled[0].name)
        else:
            found += map(visible, _texts(_contents(spelled)))
    return tuple(found)


def labels(units: Sequence[str], words: Places) -> tuple[str, ...]:
    """One label a word, from those that `units_of` gave its tokens: split characters are whole again."""
    return tuple(_joined([units[place] for place in places]) for places in words)


def control_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """The ids that stand for no text: `</s>` and its like, and the names of languages."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    languages = [*getattr(tokenizer, "id_to_lang_token", ()), *getattr(tokenizer, "lang_code_to_id", {}).values()]
    marian = tokenizer.convert_tokens_to_ids(list(getattr(tokenizer, "supported_language_codes", ())))
    return {*tokenizer.all_special_ids, *(number for number, token in added.items() if token.special), *languages, *marian}


def visible(text: str) -> str:
    """`text` without the white space round it, with a sign for each character that cannot be seen and a circle under an accent alone."""
    shown = text.strip() or text
    if all(unicodedata.category(character) in _UNSEEN for character in shown):
        return "".join(_SIGNS.get(character) or _code(character) for character in shown) or _SIGNS[" "]
    begins = "◌" if unicodedata.category(shown[0])[0] == "M" else ""
    return begins + "".join(_code(character) if unicodedata.category(character) in ("Cc", "Zl", "Zp") else character for character in shown)


def _code(character: str) -> str:
    return f"<U+{ord(character):04X}>"


def _joined(units: list[str]) -> str:
    if len(units) == 1:
        return units[0]
    text = _MARK_ALONE.sub("", _BYTES.sub(_whole, "".join(units)))
    return visible(text.strip("".join(_SIGNS.values())) or text)


def _whole(bytes_in_a_row: Any) -> str:
    """The characters that `<0xC3><0xBC>` are, or the same again where they are none."""
    try:
        return bytes(int(number, 16) for number in _BYTE.findall(bytes_in_a_row[0])).decode()
    except UnicodeDecodeError:
        return bytes_in_a_row[0]


def _runs(spelled: Sequence[Spelling]) -> Iterator[tuple[int, Sequence[Spelling]]]:
    """Each control token, and all that stands between two; and where it begins."""
    first = 0
    for place, one in enumerate(spelled):
        if one.content is None:
            if first < place:
                yield first, spelled[first:place]
            yield place, [one]
            first = place + 1
    if first < len(spelled):
        yield first, spelled[first:]


def _contents(spelled: Sequence[Spelling]) -> list[bytes]:
    return [one.content or b"" for one in spelled]


def _characters(contents: Sequence[bytes]) -> Iterator[tuple[str, dict[int, bytes]]]:
    """Each character of the text that the tokens spell together, and by token the bytes of it that it holds.

    A byte that is in no character comes as the half of a surrogate pair that stands for it in Python ("surrogateescape").
    """
    holders = iter([place for place, content in enumerate(contents) for _ in content])
    for character in b"".join(contents).decode(errors="surrogateescape"):
        parts: dict[int, bytes] = {}
        for byte in character.encode(errors="surrogateescape"):
            place = next(holders)
            parts[place] = parts.get(place, b"") + bytes([byte])
        yield character, parts


def _texts(contents: Sequence[bytes]) -> list[str]:
    """What each token spells; of a character that it shares, its bytes."""
    found = [""] * len(contents)
    for character, parts in _characters(contents):
        for place, held in parts.items():
            is_whole = len(parts) == 1 and not "\udc80" <= character <= "\udcff"
            found[place] += character if is_whole else "".join(f"<0x{byte:02X}>" for byte in held)
    return found


def _grouped(contents: Sequence[bytes]) -> list[list[int]]:
    """The tokens of each word of the text that `contents` spell together."""
    characters = list(_characters(contents))
    words_at = _words_at("".join(character for character, _ in characters))
    touched: list[list[int]] = [[] for _ in contents]
    for (_, parts), word in zip(characters, words_at, strict=True):
        for place in parts:
            if word is not None:
                touched[place].append(word)
    found: list[list[int]] = []
    blank: list[int] = []
    last_word = -1
    for place, words in enumerate(touched):
        if not words:
            blank.append(place)
        elif found and words[0] <= last_word:
            found[-1] += [*blank, place]
        else:
            found.append([*blank, place])
        if words:
            blank, last_word = [], words[-1]
    if blank and found:
        found[-1] += blank
    return found or [blank]


def _words_at(text: str) -> list[int | None]:
    """The number of the word that each character of `text` is in; `None` for white space."""
    found: list[int | None] = []
    number, before = -1, ""
    for part in filter(None, _BOUNDARY.split(text)):
        if part.isspace():
            found += [None] * len(part)
        else:
            kind = unicodedata.category(part[0])
            is_again = part == before and kind[0] in "PS" and kind != "So"  # of emoji, each says something
            number += not is_again
            found += [number] * len(part)
        before = part
    return found


def _spellings(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], side: Side) -> list[Spelling]:
    """What each of `ids` spells."""
    controls, added = control_ids(tokenizer), getattr(tokenizer, "added_tokens_decoder", {})
    names = _names(tokenizer, ids, side)
    spell = _speller(tokenizer, [name for name in names if name])
    found = []
    for number, name in zip(ids, names, strict=True):
        if number in controls or name is None:
            found.append(Spelling(name or f"<{number}>", None))
        else:
            found.append(Spelling(name, name.encode() if number in added else spell(name)))
    return found


def _names(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], side: Side) -> list[str | None]:
    """The vocabulary's entries, `None` beyond its end. Of two vocabularies, transformers' method knows only the target's."""
    if side == "source" and (isinstance(tokenizer, FSMTTokenizer) or getattr(tokenizer, "separate_vocabs", False)):
        entries = {number: name for name, number in tokenizer.encoder.items()}
        return [entries.get(number, str(tokenizer.unk_token)) for number in ids]
    return tokenizer.convert_ids_to_tokens(list(ids))


def _speller(tokenizer: PreTrainedTokenizerBase, names: Sequence[str]) -> Callable[[str], bytes]:
    """How the tokenizer writes bytes, spaces and the ends of words into its entries."""
    if isinstance(tokenizer, FSMTTokenizer):
        return _spell_moses
    if isinstance(tokenizer, ByT5Tokenizer):
        return lambda name: name.encode("latin-1", errors="replace")
    steps = list(_decoding_steps(tokenizer))
    kinds = {step["type"] for step in steps}
    if "ByteLevel" in kinds or hasattr(tokenizer, "byte_decoder"):
        return _spell_bytes
    if "WordPiece" in kinds:
        prefix = next(step["prefix"] for step in steps if step["type"] == "WordPiece")
        return lambda name: (name[len(prefix) :] if name.startswith(prefix) else f" {name}").encode()
    if "BPEDecoder" in kinds:
        suffix = next(step["suffix"] for step in steps if step["type"] == "BPEDecoder")
        return lambda name: (f"{name.removesuffix(suffix)} " if name.endswith(suffix) else name).encode()
    has_pieces = any(hasattr(tokenizer, attribute) for attribute in ("sp_model", "spm_source"))
    if has_pieces or kinds & {"Metaspace", "ByteFallback"} or any("\u2581" in name for name in names):
        return _spell_sentencepiece
    if any(name.endswith("@@") for name in names):
        return lambda name: (name.removesuffix("@@") if name.endswith("@@") else f"{name} ").encode()
    return lambda name: f" {name}".encode()


def _decoding_steps(tokenizer: PreTrainedTokenizerBase) -> Iterator[dict[str, Any]]:
    """What the decoder of a fast tokenizer does."""
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    state = {} if decoder is None else json.loads(decoder.__getstate__())
    yield from state.get("decoders", [state] if state else [])


def _spell_moses(name: str) -> bytes:
    """FSMT's entries: `</w>` ends a word of Moses' tokeniser, which writes some marks as XML does and `@-@` within a hyphenated word."""
    word = _ENTITY.sub(lambda entity: html.unescape(entity[0]), name.removesuffix("</w>"))
    return f"{'-' if word == '@-@' else word}{' ' if name.endswith('</w>') else ''}".encode()


def _spell_sentencepiece(name: str) -> bytes:
    byte = _BYTE.fullmatch(name)
    return bytes([int(byte[1], 16)]) if byte else name.replace("\u2581", " ").encode()


def _spell_bytes(name: str) -> bytes:
    values = _byte_values()
    return bytes(values[character] for character in name) if all(c in values for c in name) else name.encode()


@cache
def _byte_values() -> dict[str, int]:
    """The byte of each character of a byte-level BPE: printable ones stand for themselves, those from U+0100 for the rest, in order."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    own = {character: ord(character) for character in alphabet if ord(character) < 256}
    others = (character for character in alphabet if ord(character) >= 256)
    return own | dict(zip(others, sorted(set(range(256)) - set(own.values())), strict=True))
