"""What an example of a task is: how a text and what belongs to it become token ids and targets.

All tasks share one form, a pair of sequences of numbers, so that files, batches and budgets of tokens are the same for all:

- two texts: the ids of both;
- a text with a label: its ids, and the one number of its label;
- a text with a label for each word: its ids, and for each word `place * labels + label`, where `place` is that of the word's first token;
- a question about a context with the answer marked: for each window, its ids, and the positions of the answer's first and last token.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ..answer_windows import Window, cut_into_windows
from ..languages import target_languages
from ..recipe import Recipe
from ..search_settings import LONGEST_QUESTION
from ..tasks import BETWEEN_TEXTS, BETWEEN_WORDS
from ..word_places import first_tokens
from .sources.corpus import SentencePair
from .sources.marked import read_marked

Ids = list[list[int]]


class Examples(ABC):
    """The examples of one task. It goes to worker processes, so it holds only plain data."""

    @abstractmethod
    def ids(self, pairs: Sequence[SentencePair], tokenizer: PreTrainedTokenizerBase) -> tuple[Ids, Ids]:
        """The token ids of the sources, and the targets, of some pairs.

        Raises:
            ValueError: a pair is no example of the task; the sentence names its file and line.
        """

    def numbered(self, pairs: Sequence[SentencePair], tokenizer: PreTrainedTokenizerBase) -> tuple[Ids, Ids, list[int]]:
        """As `ids`, and the number of the pair that each of both belongs to: one pair may make several examples.

        Raises:
            ValueError: as `ids`.
        """
        return *self.ids(pairs, tokenizer), list(range(len(pairs)))

    def texts(self, pair: SentencePair) -> tuple[str, ...]:
        """What the vocabulary is learned from."""
        return (self.text(pair),)

    def text(self, pair: SentencePair) -> str:
        """The source as the model reads it."""
        return pair.source

    def entries(self, vocab_size: int) -> int:
        """A number that all ids and targets are below."""
        return vocab_size

    def settings(self) -> dict[str, Any]:
        """What decides the ids beside texts and tokenizer, such as where a long text is cut."""
        return asdict(self) if is_dataclass(self) else {}


class TextPairs(Examples):
    """A text and another one, such as its translation. Each source begins with the token of its target's language, if there are several."""

    def texts(self, pair: SentencePair) -> tuple[str, ...]:
        """Both sides."""
        return pair.source, pair.target

    def ids(self, pairs: Sequence[SentencePair], tokenizer: PreTrainedTokenizerBase) -> tuple[Ids, Ids]:
        """The ids of both sides, `</s>` included."""
        sources, targets = _both_sides(pairs, tokenizer)
        tokens = target_languages(tokenizer)
        return [ids if pair.language is None else [tokens[pair.language], *ids] for pair, ids in zip(pairs, sources, strict=True)], targets


class PlainTexts(Examples):
    """A text alone; its target is drawn with the noise (`data.noise`), and until then is the text's end."""

    def ids(self, pairs: Sequence[SentencePair], tokenizer: PreTrainedTokenizerBase) -> tuple[Ids, Ids]:
        """The ids of each text, `</s>` included, and `</s>`."""
        sources = text_ids(_sources(pairs), tokenizer)
        return sources, [ids[-1:] for ids in sources]


@dataclass(frozen=True)
class CutTexts(Examples):
    """A text and what is written about it, such as its summary; a long text is cut.

    Attributes:
        longest: the most tokens of a text, `</s>` included.
    """

    longest: int

    def texts(self, pair: SentencePair) -> tuple[str, ...]:
        """Both sides."""
        return pair.source, references(pair)[0]

    def ids(self, pairs: Sequence[SentencePair], tokenizer: PreTrainedTokenizerBase) -> tuple[Ids, Ids]:
        """The ids of both sides, `</s>` included."""
        return text_ids(self.cut(_sources(pairs), tokenizer), tokenizer), text_ids([references(pair)[0] for pair in pairs], tokenizer)

    def cut(self, texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[str]:
        """The texts as far as the model reads them: whole characters, of which one may have several tokens."""
        lengths = map(len, text_ids(texts, tokenizer))
        return [self._cut(text, tokenizer) if length > self.longest else text for text, length in zip(texts, lengths, strict=True)]

    def _cut(self, text: str, tokenizer: PreTrainedTokenizerBase) -> str:
        while text:
            encoded = tokenizer(text, return_offsets_mapping=True, verbose=False)
            if len(encoded["input_ids"]) <= self.longest:
                break
            first_without_room = encoded["offset_mapping"][self.longest - 1]
            # A space at the end can be a token more than the same space before a word
            text = text[: min(first_without_room[0], len(text) - 1)]
        return text


@dataclass(frozen=True)
class LabelledTexts(Examples):
    """A text and its label.

    Attributes:
        labels: the names of all labels, in the order of their numbers.
        names: the name of each label by what the corpus calls it; empty where it calls each by its name.
    """

    labels: tuple[str, ...]
    names: dict[str, str] = field(default_factory=dict)

    def ids(self, pairs: Sequence[SentencePair], tokenizer: PreTrainedTokenizerBase) -> tuple[Ids, Ids]:
        """The ids of each text, and the number of its label."""
        return text_ids(_sources(pairs), tokenizer), [self.numbers(pair) for pair in pairs]

    def entries(self, vocab_size: int) -> int:
        """As many as ids or labels."""
        return max(vocab_size, len(self.labels))

    def numbers(self, pair: SentencePair) -> list[int]:
        """The number of a pair's label.

        Raises:
            ValueError: there is no such label, or there are several.
        """
        labels = labels_in(pair)
        if len(labels) > 1:
            raise ValueError(
                f"{where(pair)} has {len(labels)} labels ({', '.join(map(repr, labels))}), and `task: classification` gives each text one; "
                "repair the line."
            )
        return [self._number(labels[0], pair)]

    def _number(self, label: str, pair: SentencePair) -> int:
        name = self.names.get(label) if self.names else label
        if name is None:
            known = ", ".join(map(repr, self.names))
            raise ValueError(f"{where(pair)} has the label {label!r}, but `data.labels` names {known}; add it there, or repair the line.")
        if name not in self.labels:
            known = ", ".join(map(repr, self.labels))
            raise ValueError(f"{where(pair)} has the label {name!r}, which no training text has (they have {known}); repair the line.")
        return self.labels.index(name)


class TaggedWords(LabelledTexts):
    """Words and a label for each: it stands at the word's first token. In the text, one space parts two words."""

    def text(self, pair: SentencePair) -> str:
        """The words with one space between them."""
        return " ".join(pair.source.split(BETWEEN_WORDS))

    def ids(self, pairs: Sequence[SentencePair], tokenizer: PreTrainedTokenizerBase) -> tuple[Ids, Ids]:
        """The ids of each text, and `place * labels + label` of each word."""
        settings = {"return_offsets_mapping": True, "return_attention_mask": False, "return_token_type_ids": False, "verbose": False}
        encoded = tokenizer([self.text(pair) for pair in pairs], **settings)
        targets = []
        for pair, offsets in zip(pairs, encoded["offset_mapping"], strict=True):
            numbers = self.numbers(pair)
            places = first_tokens(pair.source.split(BETWEEN_WORDS), offsets)
            targets.append([place * len(self.labels) + number for place, number in zip(places, numbers, strict=True)])
        return encoded["input_ids"], targets

    def numbers(self, pair: SentencePair) -> list[int]:
        """The number of each word's label.

        Raises:
            ValueError: there is no such label, or there are not as many as words, or a word has no character to see.
        """
        labels, words = labels_in(pair), pair.source.split(BETWEEN_WORDS)
        if len(labels) != len(words):
            raise ValueError(f"{where(pair)} has {len(words)} words and {len(labels)} labels; each word needs one label.")
        if not all(word.strip() for word in words):
            raise ValueError(f"{where(pair)} has a word without a character to see; remove it and its label.")
        return [self._number(label, pair) for label in labels]

    def entries(self, vocab_size: int) -> int:
        """Places have no limit that is known."""
        return 2**32


@dataclass(frozen=True)
class MarkedAnswers(Examples):
    """A question and a context in which the answer is marked; a long context makes several examples, its windows.

    Attributes:
        size: the most tokens of a window.
        overlap: the tokens that two windows share; None for the default of `cut_into_windows`.
        longest_question: the most tokens of a question.
        may_be_none: whether a context may have no answer.
    """

    size: int
    overlap: int | None = None
    longest_question: int = LONGEST_QUESTION
    may_be_none: bool = False

    def texts(self, pair: SentencePair) -> tuple[str, ...]:
        """The question and the context."""
        return read_marked(pair)[:2]

    def ids(self, pairs: Sequence[SentencePair], tokenizer: PreTrainedTokenizerBase) -> tuple[Ids, Ids]:
        """The ids of all windows, and of each the positions of the first right answer's first and last token."""
        return self.numbered(pairs, tokenizer)[:2]

    def numbered(self, pairs: Sequence[SentencePair], tokenizer: PreTrainedTokenizerBase) -> tuple[Ids, Ids, list[int]]:
        """As `ids`, and the number of each window's pair."""
        sources: Ids = []
        targets: Ids = []
        numbers: list[int] = []
        for number, pair in enumerate(pairs):
            asked = read_marked(pair)
            for window in self.windows(pair, tokenizer, whole_words=False):
                sources.append(window.inputs["input_ids"])
                # A window without the answer is trained to say so, as in transformers' example script
                targets.append(list(window.positions_of(*asked.spans[0]) if asked.spans else (window.none, window.none)))
                numbers.append(number)
        return sources, targets, numbers

    def windows(self, pair: SentencePair, tokenizer: PreTrainedTokenizerBase, *, whole_words: bool) -> list[Window]:
        """The windows of a question; see `cut_into_windows`."""
        question, context, spans = read_marked(pair)
        if not spans and not self.may_be_none:
            raise ValueError(f"{where(pair)} has no answer in its context; set `answers.may_be_none: true`, or leave such questions out.")
        return cut_into_windows(tokenizer, question, context, self.size, self.overlap, self.longest_question, whole_words=whole_words)

    def entries(self, vocab_size: int) -> int:
        """As many as ids or positions."""
        return max(vocab_size, self.size)


def examples_of(recipe: Recipe, labels: tuple[str, ...] = ()) -> Examples:
    """The examples of a recipe's task.

    Args:
        recipe: names the task.
        labels: the names of all labels; not needed for the texts alone.
    """
    match recipe.task:
        case "classification":
            return LabelledTexts(labels, recipe.data.labels)
        case "tagging":
            return TaggedWords(labels, recipe.data.labels)
        case "pretraining":
            return PlainTexts()
        case "question_answering" if recipe.marks_answers:
            answers = recipe.answers
            return MarkedAnswers(recipe.batching.max_sentence_tokens, answers.overlap, answers.longest_question, answers.may_be_none)
        case "summarization" | "question_answering":
            return CutTexts(recipe.batching.max_sentence_tokens)
        case _:
            return TextPairs()


def where(pair: SentencePair) -> str:
    """File and line of a pair."""
    return f"{pair.origin}:{pair.line}"


def check_lengths(pairs: Sequence[SentencePair], ids: Sequence[Sequence[int]], most: int | None) -> None:
    """Raise a `ValueError` that names the first text of more tokens than a model has positions for; `most` is None for any number."""
    for pair, each in zip(pairs, ids, strict=True):
        if most is not None and len(each) > most:
            raise ValueError(
                f"{where(pair)} has {len(each)} tokens, and the model has positions for {most}; shorten the text, or leave it out."
            )


def references(pair: SentencePair) -> list[str]:
    """The right answers to a pair's source, the first of which is trained on."""
    return pair.target.split(BETWEEN_TEXTS)


def labels_in(pair: SentencePair) -> list[str]:
    """The labels of a text as its corpus writes them.

    Raises:
        ValueError: one is missing, or is no label but -100.
    """
    labels = [label.strip() for label in pair.target.split(BETWEEN_WORDS)]
    if not all(labels):
        raise ValueError(f"{where(pair)} has no label{'' if len(labels) == 1 else ' for one of its words'}; add it, or remove the line.")
    if "-100" in labels:
        raise ValueError(
            f"{where(pair)} has the label -100, by which transformers leaves a token out; give the word its label, or remove the line."
        )
    return labels


def with_labels(pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
    """The same pairs; the first one without a label raises the `ValueError` of `labels_in`."""
    for pair in pairs:
        labels_in(pair)
        yield pair


def all_labels(pairs: Iterable[SentencePair]) -> tuple[str, ...]:
    """All labels of some pairs, sorted, numbers by their value.

    Raises:
        ValueError: there are fewer than two.
    """
    found = {label for pair in pairs for label in labels_in(pair)}
    if len(found) < 2:
        raise ValueError(f"All training texts have the label {', '.join(found)!r}; there must be two or more to choose from.")
    return tuple(sorted(found, key=lambda label: (not label.isdecimal(), int(label) if label.isdecimal() else 0, label)))


def text_ids(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> Ids:
    """The ids of texts as sources, `</s>` included."""
    if type(tokenizer) is PreTrainedTokenizerFast:
        return _encode_fast(list(texts), tokenizer)
    ids: Ids = tokenizer(list(texts), return_attention_mask=False, return_token_type_ids=False, verbose=False)["input_ids"]
    return ids


def _sources(pairs: Sequence[SentencePair]) -> list[str]:
    return [pair.source for pair in pairs]


def _both_sides(pairs: Sequence[SentencePair], tokenizer: PreTrainedTokenizerBase) -> tuple[Ids, Ids]:
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if type(tokenizer) is PreTrainedTokenizerFast:
        return _encode_fast(sources, tokenizer), _encode_fast(targets, tokenizer)
    settings = {"return_attention_mask": False, "return_token_type_ids": False, "verbose": False}
    return tokenizer(sources, **settings)["input_ids"], tokenizer(text_target=targets, **settings)["input_ids"]


def _encode_fast(texts: list[str], tokenizer: PreTrainedTokenizerFast) -> Ids:
    """The same ids as the stock tokenizer's own call, in less than half the time; it encodes source and target alike."""
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    # The backend does not keep this setting by itself; without it, text that spells a control token would become one.
    backend.encode_special_tokens = tokenizer.split_special_tokens
    return [encoding.ids for encoding in backend.encode_batch_fast(texts)]
