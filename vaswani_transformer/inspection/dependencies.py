"""Figures 3 to 5 of the paper for any model: sentences in which heads follow long-distance dependencies and pronouns, found by measures.

Nobody picks a sentence. All is measured in the encoder's self-attention, by words, over one text:

- **What position explains.** A head may give much weight to a word for its place alone. For each head, the mean weight at each offset
  (key's place minus query's) over the whole text is what position explains; only the excess above it counts.
- **Figure 3** is the content word, and the head, with the largest excess on content words at least `FAR` words away, equal words aside.
- **Figure 4** is the head with the largest mean excess of pronouns on the noun-like words before them, where position is measured with all
  other content words as queries; in it, the pronoun with the largest excess on a single noun-like word, at least two words before it.
- **Figure 5** shows the two heads of one layer whose rows differ the most (total variation distance, mean of all words), in the first
  sentence of median length.

Content words are those outside a closed list of function words. A noun-like word is a content word that does not end in -ing or -ed and has
no such word directly after it, which leaves out most adjectives and verbs. Both lists are English.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..files.json_files import write_json
from .figures import write_figure
from .line_figures import Lines, draw_lines, draw_panels
from .maps import AttentionMaps, attention_maps

FAR = 5
"""Words between the ends of a long-distance dependency, the second included."""

_ENGLISH_PRONOUNS = "he him his himself she her hers herself it its itself they them their theirs themselves"
_ENGLISH_FUNCTION_WORDS = """
a an the this that these those some any each every all both several many much few no another other one two three four five six seven eight
nine ten and or but nor so yet if as than because while when where who whom whose which what how why of in on at by for from to into onto
with without over under up down out off through across along around behind beside between near above below next against during before
after about upon toward towards among inside outside i me my mine we us our you your is are was were be been being am do does did has have
had having will would can could should may might must shall not there here very too also just s t
"""

PRONOUNS: Mapping[str, frozenset[str]] = {"en": frozenset(_ENGLISH_PRONOUNS.split())}
"""Of the third person, by language: they stand for something that was named before."""

FUNCTION_WORDS: Mapping[str, frozenset[str]] = {"en": PRONOUNS["en"] | frozenset(_ENGLISH_FUNCTION_WORDS.split())}
"""The words that are no content words: articles, numbers, prepositions, conjunctions, auxiliaries, pronouns."""


class Found(NamedTuple):
    """What one figure shows; places, layers and heads are counted from 0."""

    figure: int
    rule: str
    sentence: int
    layer: int
    heads: tuple[int, ...]
    query: int | None
    key: int | None
    facts: dict[str, float]
    """What was measured: weights, what position explains, means."""


class _Sentence(NamedTuple):
    words: tuple[str, ...]
    weights: Tensor
    """`[layers, heads, S, S]`"""
    content: Tensor
    """`[S]`, true on content words."""
    nouns: Tensor
    pronouns: Tensor

    @property
    def offsets(self) -> Tensor:
        """`[S, S]`: a key's place minus a query's, plus S - 1, so that it is an index."""
        places = torch.arange(len(self.words))
        return places - places[:, None] + len(self.words) - 1

    def different(self) -> Tensor:
        """`[S, S]`, true where two words are not the same."""
        names = [word.lower() for word in self.words]
        return torch.tensor([[one != other for other in names] for one in names])


def content_words(words: Sequence[str], language: str = "en") -> list[bool]:
    """Which words are content words: those with a letter that are no function words and no control tokens."""
    return [
        any(map(str.isalpha, word)) and not (word.startswith("<") and word.endswith(">")) and word.lower() not in FUNCTION_WORDS[language]
        for word in words
    ]


def noun_like(words: Sequence[str], language: str = "en") -> list[bool]:
    """Which words are noun-like; see the docstring of this module."""
    can = [is_content and not word.lower().endswith(("ing", "ed")) for word, is_content in
           zip(words, content_words(words, language), strict=True)]  # fmt: skip
    return [is_one and not after for is_one, after in zip(can, [*can[1:], False], strict=True)]


def find_dependencies(maps: Sequence[AttentionMaps], language: str = "en") -> list[Found]:
    """The sentences and heads of Figures 3, 4 and 5; without a pronoun in the text, those of 3 and 5.

    It holds all maps at once: sentences * layers * heads * words^2 * 4 bytes.

    Args:
        maps: of the sentences of a text, by words.
        language: of the source.

    Raises:
        ValueError: there are no maps, or the language is not among `PRONOUNS`.
    """
    if language not in PRONOUNS:
        raise ValueError(f"Pronouns and function words are known in {', '.join(PRONOUNS)}, not in {language!r}.")
    if not maps:
        raise ValueError("There are no sentences to find dependencies in.")
    sentences = [_sentence(one, language) for one in maps]
    return [found for find in (_long_distance, _pronoun, _tasks) if (found := find(sentences)) is not None]


def write_dependency_figures(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[tuple[str, str]],
    folder: Path,
    *,
    language: str = "en",
    tgt_lang: str | None = None,
    progress: bool = False,
) -> list[dict[str, Any]]:
    """Find the sentences of Figures 3 to 5 in a text, and draw `figure_3.png`, `figure_4.png` and `figure_5.png`.

    Args:
        model, tokenizer, tgt_lang: see `attention_maps`.
        pairs: sources and their translations, which the decoder is given.
        folder: where to; `figures.json` tells how each figure was found.
        language: of the sources.
        progress: show a bar.

    Returns:
        What `figures.json` holds.

    Raises:
        ValueError: see `find_dependencies` and `attention_maps`.
    """
    maps = [
        attention_maps(model, tokenizer, source, target, level="word", tgt_lang=tgt_lang)
        for source, target in tqdm(pairs, unit="sentence", desc="Looking", disable=not progress)
    ]
    told = []
    for found in find_dependencies(maps, language):
        shown, head = maps[found.sentence], found.heads[0]
        if found.figure == 3:
            figure = draw_lines(shown, "encoder", found.layer, range(shown.encoder.shape[1]), found.query)
        elif found.figure == 4:
            figure = draw_panels(shown, "encoder", found.layer, [Lines([head]), Lines(found.heads, found.query)])
        else:
            figure = draw_panels(shown, "encoder", found.layer, [Lines([head]) for head in found.heads])
        write_figure(figure, folder / f"figure_{found.figure}.png")
        words = {
            "source": shown.source_text,
            "query_word": None if found.query is None else shown.source[found.query],
            "key_word": None if found.key is None else shown.source[found.key],
        }
        told.append(found._asdict() | words)
    write_json(folder / "figures.json", {"sentences": len(pairs), "figures": told})
    return told


def _sentence(maps: AttentionMaps, language: str) -> _Sentence:
    words = maps.source
    pronouns = [word.lower() in PRONOUNS[language] for word in words]
    marks = (content_words(words, language), noun_like(words, language), pronouns)
    return _Sentence(words, maps.encoder.float(), *map(torch.tensor, marks))


def _explained(sentences: Sequence[_Sentence], queries: str, keys: str) -> Tensor:
    """The mean weight of each head at each offset, over these kinds of queries and keys: `[layers, heads, 2 * longest - 1]`."""
    longest = max(len(sentence.words) for sentence in sentences)
    shape = sentences[0].weights.shape[:2]
    total, number = torch.zeros(*shape, 2 * longest - 1, dtype=torch.float64), torch.zeros(2 * longest - 1, dtype=torch.float64)
    for sentence in sentences:
        chosen = getattr(sentence, queries)[:, None] & getattr(sentence, keys)[None] & sentence.different()
        places = (sentence.offsets + longest - len(sentence.words))[chosen]
        number.index_add_(0, places, torch.ones(len(places), dtype=torch.float64))
        total.index_add_(2, places, sentence.weights[:, :, chosen].double())
    return total / number.clamp(min=1)


def _excess(sentence: _Sentence, explained: Tensor) -> Tensor:
    """What each weight has above what position explains, `[layers, heads, S, S]`."""
    longest = (explained.shape[-1] + 1) // 2
    return sentence.weights.double() - explained[:, :, sentence.offsets + longest - len(sentence.words)]


def _long_distance(sentences: Sequence[_Sentence]) -> Found:
    """Figure 3."""
    explained = _explained(sentences, "content", "content")
    best, place = -1.0, (0, 0, 0, 0, 0)
    for number, sentence in enumerate(sentences):
        far = (sentence.offsets - len(sentence.words) + 1).abs() >= FAR
        chosen = sentence.content[:, None] & sentence.content[None] & sentence.different() & far
        excess = _excess(sentence, explained) * chosen
        sums = excess.sum(-1)
        if float(sums.max()) > best:
            best = float(sums.max())
            layer, head, query = (int(part) for part in torch.unravel_index(sums.argmax(), sums.shape))
            place = (number, layer, head, query, int(excess[layer, head, query].argmax()))
    number, layer, head, query, key = place
    weight = float(sentences[number].weights[layer, head, query, key])
    facts: dict[str, float] = {"excess": best, "weight_on_key": weight, "distance": abs(key - query)}
    rule = f"the content word whose head looks the most at content words {FAR} or more words away, above what position explains"
    return Found(3, rule, number, layer, (head,), query, key, facts)


def _pronoun(sentences: Sequence[_Sentence]) -> Found | None:
    """Figure 4."""
    explained = _explained(sentences, "content", "nouns")
    shape = sentences[0].weights.shape[:2]
    total, mass, number = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64), 0
    occurrences: list[tuple[int, int, Tensor]] = []
    for place, sentence in enumerate(sentences):
        before = sentence.nouns[None] & torch.ones(len(sentence.words), len(sentence.words), dtype=torch.bool).tril(-1)
        excess = _excess(sentence, explained)
        for query in sentence.pronouns.nonzero().flatten().tolist():
            keys = before[query]
            if keys.any():
                total += excess[:, :, query, keys].sum(-1)
                mass += sentence.weights[:, :, query, keys].double().sum(-1)
                number += 1
                keys = keys & (torch.arange(len(keys)) <= query - 2)
                occurrences.append((place, query, excess[:, :, query].masked_fill(~keys, -1.0)))
    if not occurrences:
        return None
    layer, head = (int(part) for part in torch.unravel_index(total.argmax(), shape))
    others = [other for other in total[layer].argsort(descending=True).tolist() if other != head]
    chosen, query, above = max(occurrences, key=lambda one: float(one[2][layer, head].max()))
    key = int(above[layer, head].argmax())
    facts = {
        "pronouns": number,
        "mean_weight_on_nouns_before": float(mass[layer, head]) / number,
        "mean_excess": float(total[layer, head]) / number,
        "weight_on_key": float(sentences[chosen].weights[layer, head, query, key]),
        "excess_on_key": float(above[layer, head, key]),
    }
    rule = (
        "the head in which pronouns look the most at noun-like words before them, above what position explains, the next best head of "
        "its layer, and the pronoun with the largest excess on one such word"
    )
    return Found(4, rule, chosen, layer, (head, *others[:1]), query, key, facts)


def _tasks(sentences: Sequence[_Sentence]) -> Found | None:
    """Figure 5."""
    layers, heads = sentences[0].weights.shape[:2]
    pairs = list(combinations(range(heads), 2))
    if not pairs:
        return None
    total, words = torch.zeros(layers, len(pairs), dtype=torch.float64), 0
    one, other = ([pair[side] for pair in pairs] for side in (0, 1))
    for sentence in sentences:
        total += ((sentence.weights[:, one] - sentence.weights[:, other]).abs().sum(-1) / 2).sum(-1).double()
        words += len(sentence.words)
    layer, pair = (int(part) for part in torch.unravel_index(total.argmax(), total.shape))
    lengths = [len(sentence.words) for sentence in sentences]
    number = lengths.index(sorted(lengths)[len(lengths) // 2])
    rule = "the two heads of one layer whose rows differ the most, in the first sentence of median length"
    return Found(5, rule, number, layer, pairs[pair], None, None, {"mean_total_variation": float(total[layer, pair]) / words})
