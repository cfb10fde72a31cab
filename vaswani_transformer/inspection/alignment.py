"""Which word of a translation stands for which word of the source: alignments from attention, and how far they are from true ones."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple, get_args, overload

from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .maps import AttentionMaps, attention_maps, merged
from .words import Places, control_ids, labels

Links = Collection[tuple[int, int]]
"""Pairs of word indices: source, then target."""

Level = Literal["subword", "word"]


@dataclass(frozen=True)
class WordAlignment:
    """Which words of two texts belong together.

    The words are those of `AttentionMaps.words()` without the control tokens (the end of the sentence, a language), so that index 0 is
    the first word of the text.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: tuple[tuple[int, int], ...]
    """Pairs of indices, source then target, in order."""

    def pharaoh(self) -> str:
        """The links as most tools write them: `0-0 1-2`, source first."""
        return " ".join(f"{source}-{target}" for source, target in self.links)

    def pairs(self) -> list[tuple[str, str]]:
        """The linked words themselves."""
        return [(self.source[source], self.target[target]) for source, target in self.links]

    def between(self, source: Sequence[str], target: Sequence[str]) -> "WordAlignment":
        """The same links between other words of the same texts, such as those of a tokenised file with true alignments.

        Two words are linked where any of their parts are. White space does not count.

        Raises:
            ValueError: the words spell another text.
        """
        sides = (_parts(self.source, source), _parts(self.target, target))
        links = {pair for ours, theirs in self.links for pair in product(sides[0][ours], sides[1][theirs])}
        return WordAlignment(tuple(source), tuple(target), tuple(sorted(links)))


def _parts(words: Sequence[str], others: Sequence[str]) -> list[list[int]]:
    """For each of `words`, which of `others` share a character with it."""
    ours, theirs = (["".join(word.split()) for word in side] for side in (words, others))
    if "".join(ours) != "".join(theirs):
        raise ValueError(f"{' '.join(words)!r} and {' '.join(others)!r} are not the same text, so its links cannot be carried over.")
    owner = [number for number, word in enumerate(theirs) for _ in word]
    ends = [sum(map(len, ours[: number + 1])) for number in range(len(ours))]
    return [sorted(set(owner[end - len(word) : end])) for word, end in zip(ours, ends, strict=True)]


def read_pharaoh(line: str) -> list[tuple[int, int]]:
    """The links of a line such as `0-0 1-2`: pairs of word indices, source then target.

    Raises:
        ValueError: something else stands there.
    """
    links = [link.split("-") for link in line.split()]
    if not all(len(link) == 2 and all(number.isascii() and number.isdigit() for number in link) for link in links):
        raise ValueError(f"{line.strip()!r} is no alignment; write pairs of word indices, such as 0-0 1-2.")
    return [(int(source), int(target)) for source, target in links]


class Choice(NamedTuple):
    """A layer and a step that agree best; see `choose_layer`."""

    layer: int
    shifted: bool
    agreement: float
    """From 0 to 1, the mean over the texts."""


@overload
def align(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, source: str, target: str | None = None, **options: Any
) -> WordAlignment: ...


@overload
def align(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, source: Sequence[str], target: Sequence[str] | None = None, **options: Any
) -> list[WordAlignment]: ...


def align(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: str | Sequence[str],
    target: str | Sequence[str] | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    shifted: bool | None = None,
    level: Level = "subword",
    threshold: float | None = None,
    **options: Any,
) -> WordAlignment | list[WordAlignment]:
    """Say which words of a translation belong to which words of the source, by where the decoder looks.

    The attention of one decoder layer, the mean of its heads, links each target subword to the source subword with the most weight
    (the baseline of Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer Models"). Control tokens never align.

    Which layer, and which step? Garg et al. take the penultimate layer. Chen et al. 2020 ("Accurate Word Alignment Induction from Neural
    Machine Translation") shift by one: a decoder knows a word only when it reads it, so they take the step after the one that writes it,
    whose input is that word, in a layer further down. No fixed layer is right for every model, and a wrong one can be worse than no
    model at all. By default `choose_layer` decides, text by text, without any true alignment. For a whole corpus, call `choose_layer`
    once on some hundred texts, and give its `layer` and `shifted` to every call.

    Args:
        model: an encoder-decoder of transformers.
        tokenizer: the model's.
        source: a text, or several.
        target: its translation, or one for each text; `None` for what the model's own search finds.
        layer: of the decoder, from 0; by default the one that agrees best.
        head: of that layer, from 0; by default the mean of all its heads.
        shifted: take the step that reads the word, or else the step that writes it; by default the one that agrees best. The last word of
            a translation that has no end (it was cut off) is never read and then has no link.
        level: `"subword"`: two words are linked where any of their subwords are (Zenkel et al. 2019, Garg et al. 2019). `"word"`: the
            weights are first merged to words, as in `AttentionMaps.words()`.
        threshold: link every pair whose weight is at least this, be it none or several for a word; by default each target word, or
            subword, is linked to the one source word, or subword, with the most weight.
        options: for `attention_maps`: languages, and settings of the search.

    Returns:
        One alignment for one text, a list for several. What one text gives does not depend on the others.

    Raises:
        TypeError: one text and several targets, or the other way round.
        ValueError: there is no such layer, head, level or threshold; as many targets as texts are needed; as for `attention_maps`.
    """
    _check(level, threshold)
    control = control_labels(tokenizer)
    found = partial(alignment_of, control=control, layer=layer, head=head, shifted=shifted, level=level, threshold=threshold)
    if isinstance(source, str):
        if target is not None and not isinstance(target, str):
            raise TypeError("`source` is one text and `target` is several; give one target, or a list of sources.")
        return found(attention_maps(model, tokenizer, source, target, **options))
    if isinstance(target, str):
        raise TypeError("`source` is several texts and `target` is one; give a target for each.")
    sources = list(source)
    targets: list[str | None] = [None] * len(sources) if target is None else list(target)
    if len(sources) != len(targets):
        raise ValueError(f"There are {len(sources)} sources and {len(targets)} targets; each source needs its target.")
    return [found(attention_maps(model, tokenizer, text, written, **options)) for text, written in zip(sources, targets, strict=True)]


def alignment_of(
    maps: AttentionMaps,
    control: Collection[str] = ("</s>",),
    *,
    layer: int | None = None,
    head: int | None = None,
    shifted: bool | None = None,
    level: Level = "subword",
    threshold: float | None = None,
) -> WordAlignment:
    """The alignment that maps by subwords show; the options are those of `align`.

    Args:
        maps: of a translation, by subwords.
        control: units of the maps that stand for no text and never align (see `control_labels`).

    Raises:
        ValueError: there is no such layer, head, level or threshold; the maps are by words.
    """
    _check(level, threshold)
    if layer is None or shifted is None:
        layer, shifted, _ = choose_layer([maps], control, layer=layer, head=head, shifted=shifted)
    weights = _chosen(maps, layer, head)
    sources, targets = _sides(maps, control)
    find: Callable[[Tensor, Places, Places, float | None], Iterator[tuple[int, int]]] = _by_word if level == "word" else _by_subword
    links = sorted(set(find(weights, sources, _queries(targets, shifted, len(weights)), threshold))) if sources else []
    return WordAlignment(labels(maps.source, sources), labels(maps.target, targets), tuple(links))


def choose_layer(
    maps: Sequence[AttentionMaps],
    control: Collection[str] = ("</s>",),
    *,
    layer: int | None = None,
    head: int | None = None,
    shifted: bool | None = None,
) -> Choice:
    """The decoder layer, and the step, whose attention agrees best with itself when it is read in both directions.

    Link each target subword to the source subword that it looks at most (A), and each source subword to the target subword that looks at
    it most (B). Attention that aligns gives the same links both ways; attention that does something else (a sink, the next word, a bit of
    everything) does not. The agreement is `2 |A & B| / (|A| + |B|)`, the mean over the texts. Chen et al. 2020 choose layers by the
    agreement of two models, one for each direction of translation; this takes one model. No true alignment is needed.

    Args:
        maps: of one or more translations of one model, by subwords. Some hundred make a choice for a corpus.
        control: as for `alignment_of`.
        layer: choose only the step, for this layer.
        head: by one head of each layer instead of their mean.
        shifted: choose only the layer, for this step.

    Raises:
        ValueError: there are no maps, or they are by words; there is no such layer or head; a head is given without a layer.
    """
    if not maps:
        raise ValueError("There are no maps to choose a layer by.")
    layers = maps[0].cross.shape[0]
    if head is not None and layer is None:
        raise ValueError(f"`head` is {head} without a layer; say which layer's head (layers 0 to {layers - 1}).")
    choices = []
    for number in range(layers) if layer is None else [layer]:
        for step in (False, True) if shifted is None else [shifted]:
            agreement = sum(_agreement(one, _chosen(one, number, head), control, step) for one in maps) / len(maps)
            choices.append(Choice(number, step, agreement))
    return max(choices, key=lambda choice: (choice.agreement, choice.layer, not choice.shifted))


def control_labels(tokenizer: PreTrainedTokenizerBase) -> frozenset[str]:
    """What `AttentionMaps` calls the tokens that stand for no text: `</s>`, the name of a language."""
    return frozenset(map(str, tokenizer.convert_ids_to_tokens(sorted(control_ids(tokenizer)))))


def _check(level: str, threshold: float | None) -> None:
    if level not in get_args(Level):
        raise ValueError(f"There is no level {level!r}; choose {' or '.join(get_args(Level))}.")
    if threshold is not None and not 0 < threshold <= 1:
        raise ValueError(f"`threshold` is {threshold}; it is a weight above 0 and at most 1.")


def _chosen(maps: AttentionMaps, layer: int, head: int | None) -> Tensor:
    """`[T, S]`: the weights of one head, or the mean of a layer's."""
    if not maps.source_words:
        raise ValueError("These maps are by words, and a step of the decoder is a subword; align maps by subwords.")
    for name, number, count in zip(("layer", "head"), (layer, head), maps.cross.shape, strict=False):
        if number is not None and not 0 <= number < count:
            raise ValueError(f"There is no {name} {number}: the decoder's {name}s are 0 to {count - 1}.")
    return maps.cross[layer].mean(0) if head is None else maps.cross[layer, head]


def _sides(maps: AttentionMaps, control: Collection[str]) -> tuple[Places, Places]:
    """The words of the source, and of the target, that stand for text; a task's prefix (translate English to German:) is not the text's."""
    sides = ((maps.source, maps.source_words), (maps.target, maps.target_words))
    sources, targets = (
        tuple(places for places in words if not (len(places) == 1 and units[places[0]] in control)) for units, words in sides
    )
    spelled, text = labels(maps.source, sources), "".join(maps.source_text.split())
    before = "".join("".join(spelled).split()).removesuffix(text)
    starts = {"".join(spelled[:count]): count for count in range(len(spelled))}
    return sources[starts.get(before, 0) :], targets


def _queries(targets: Places, shifted: bool, steps: int) -> Places:
    """For each word, the steps whose attention is its own."""
    return tuple(tuple(place + shifted for place in places if place + shifted < steps) for places in targets)


def _agreement(maps: AttentionMaps, weights: Tensor, control: Collection[str], shifted: bool) -> float:
    sources, targets = _sides(maps, control)
    rows = [place for places in _queries(targets, shifted, len(weights)) for place in places]
    columns = [place for places in sources for place in places]
    if not rows or not columns:
        return 0.0
    square = weights[rows][:, columns]
    forward = {(int(column), row) for row, column in enumerate(square.argmax(1))}
    backward = {(column, int(row)) for column, row in enumerate(square.argmax(0))}
    return 2 * len(forward & backward) / (len(forward) + len(backward))


def _by_subword(weights: Tensor, sources: Places, queries: Places, threshold: float | None) -> Iterator[tuple[int, int]]:
    """Two words are linked where any of their subwords are."""
    word_of = [word for word, places in enumerate(sources) for _ in places]
    columns = weights[:, [place for places in sources for place in places]]
    for target, rows in enumerate(queries):
        for row in rows:
            yield from ((word_of[place], target) for place in _linked(columns[row], threshold))


def _by_word(weights: Tensor, sources: Places, queries: Places, threshold: float | None) -> Iterator[tuple[int, int]]:
    """Weights summed over a source word, averaged over a target word."""
    for target, rows in enumerate(queries):
        if rows:
            yield from ((source, target) for source in _linked(merged(weights, (rows,), sources)[0], threshold))


def _linked(row: Tensor, threshold: float | None) -> list[int]:
    """The columns that this row links to."""
    if threshold is None:
        return [int(row.argmax())]
    return [int(column) for column in (row >= threshold).nonzero()]


class ErrorRate(NamedTuple):
    """How far alignments are from the true ones, over a whole corpus: shares from 0 to 1, and how many links were counted."""

    aer: float
    """Alignment error rate: 0 where every sure link was found and nothing that is not possible."""
    precision: float
    """Of the links found, the share that is possible."""
    recall: float
    """Of the sure links, the share that was found."""
    found: int
    sure: int


def alignment_error_rate(
    found: Sequence[WordAlignment | Links], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> ErrorRate:
    """How far alignments are from the true ones, over all sentences together (Och and Ney 2003, section 5).

    With the found links A, the sure ones S and the possible ones P, which contain S: precision is `|A & P| / |A|`, recall
    `|A & S| / |S|`, and AER `1 - (|A & S| + |A & P|) / (|A| + |S|)`.

    Args:
        found: for each sentence its alignment, or its links: pairs of word indices from 0, source then target.
        sure: the true links that must be found, sentence by sentence.
        possible: those that may be found; sure links are possible whether they stand here or not. By default there are no others.

    Returns:
        The rates. Nothing found has a precision of 1; where no link is sure, the recall is 1.

    Raises:
        ValueError: the numbers of sentences differ; an index is negative or, where an alignment tells its words, beyond them; there is
            neither a found nor a sure link.
    """
    possible = sure if possible is None else possible
    if not len(found) == len(sure) == len(possible):
        raise ValueError(f"Sentences differ in number: {len(found)} with found links, {len(sure)} sure, {len(possible)} possible.")
    hits = permitted = found_links = sure_links = 0
    for number, (one, must, may) in enumerate(zip(found, sure, possible, strict=True), start=1):
        links, musts = set(one.links if isinstance(one, WordAlignment) else one), set(must)
        known = musts | set(may)
        _check_range(one, links | known, number)
        hits += len(links & musts)
        permitted += len(links & known)
        found_links += len(links)
        sure_links += len(musts)
    if not found_links + sure_links:
        raise ValueError("There is neither a found nor a sure link, so there is no error rate.")
    return ErrorRate(
        aer=1 - (hits + permitted) / (found_links + sure_links),
        precision=permitted / found_links if found_links else 1.0,
        recall=hits / sure_links if sure_links else 1.0,
        found=found_links,
        sure=sure_links,
    )


def _check_range(one: WordAlignment | Links, links: Links, number: int) -> None:
    sizes = (len(one.source), len(one.target)) if isinstance(one, WordAlignment) else None
    for link in sorted(links):
        if min(link) < 0 or (sizes and not all(index < size for index, size in zip(link, sizes, strict=True))):
            words = f": it has {sizes[0]} source and {sizes[1]} target words, and indices count from 0" if sizes else ""
            raise ValueError(f"Sentence {number} has no words for the link {link[0]}-{link[1]}{words}.")
