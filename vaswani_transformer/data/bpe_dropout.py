"""BPE-dropout (Provilkov, Emelianenko and Voita 2020, section 3): another segmentation of every training sentence in every epoch.

Encoding a word merges its symbols step by step. Here each possible merge is left out of a step with probability p, so that the same word
is cut in many ways. The model thus sees how words are composed, and small corpora gain most.

The `tokenizers` library has the method, but its random numbers cannot be seeded. So the drawing is here. It starts from the plain ids,
which spell the text: no merge crosses the border of two words, so that no text has to be kept. The random numbers are a function of seed,
epoch, pair and place alone. So nothing is stored, any rank can draw any pair at any time, and a resumed training draws what an
undisturbed one draws.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, pre_tokenizers
from transformers import PreTrainedTokenizerBase

from .bpe import is_byte_level
from .encoding import EncodedCorpus, TokenPairs, TokenSequences, ragged_ranges

_NONE = np.iinfo(np.int64).max
_PLACE_BITS = 32
_PLACE = (1 << _PLACE_BITS) - 1
_SLOTS_A_MERGE = 4
"""At least so many slots in the table of merges for each of them: with most of them empty, free ones are found at once."""
_LOW_BITS = np.uint64(20)
"""Of a product with a random factor; higher ones are mixed better."""
_SENTENCES_AT_ONCE = 1024
"""The arrays of so many sentences stay in a processor's cache."""
_PAIRS_CHECKED = 1000

# SplitMix64 (Steele, Lea and Flood 2014): a counter goes in, well-mixed bits come out
_STEP, _FACTORS, _SHIFTS = 0x9E3779B97F4A7C15, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB), (30, 27, 31)
_PLACE_STEP = 0xD1342543DE82EF95
"""Of the counter, from one byte of a sentence to the next; far from the multiples of `_STEP`, which lead from one merge to the next."""


class RandomSegmentation:
    """Cuts words at random: the encoding of a byte-level BPE with merges left out.

    At each step, every possible merge of a word is left out with probability `rate`. The earliest learnt of the others is made; where
    there is none, the word is done. With rate 0 this is plain encoding, and near 1 every byte remains a token.

    Args:
        tokenizer: a byte-level BPE.
        rate: p, 0 <= p < 1.

    Raises:
        ValueError: `tokenizer` is no byte-level BPE, or not one that only merges.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, rate: float) -> None:
        require_merges(tokenizer)
        backend: Tokenizer = tokenizer.backend_tokenizer
        vocabulary = backend.get_vocab(with_added_tokens=True)
        size = max(vocabulary.values()) + 1
        merges = json.loads(backend.to_str())["model"]["merges"]
        self._merges = _MergeTable([(vocabulary[a], vocabulary[b], vocabulary[a + b]) for a, b in merges], size)
        self._limit = np.uint64(int(rate * 2**64))
        self._pre_tokenizer = backend.pre_tokenizer
        self._tokens = [""] * size
        alphabet, added = set(pre_tokenizers.ByteLevel.alphabet()), backend.get_added_tokens_decoder()
        spelled = [[number] for number in range(size)]
        self._is_text = np.zeros(size, dtype=bool)
        for token, number in vocabulary.items():
            if number not in added and alphabet.issuperset(token):
                self._tokens[number], self._is_text[number] = token, True
                spelled[number] = [vocabulary[byte] for byte in token]
        self._spelling = TokenSequences.of(spelled, np.int32)
        self._text_lengths = np.where(self._is_text, self._spelling.lengths, 0)

    def word_starts(self, sequences: TokenSequences) -> NDArray[np.bool_]:
        """Which tokens begin a word as the pre-tokenizer splits the text, or are no text, such as `</s>`; for all sequences, [tokens]."""
        decoder = decoders.ByteLevel()
        lengths: list[int] = []
        for ids in sequences:
            text = decoder.decode([self._tokens[number] for number in ids.tolist()])
            lengths += [len(word) for word, _ in self._pre_tokenizer.pre_tokenize_str(text)]
        flat = sequences.flat
        is_text, token_lengths = self._is_text[flat], self._text_lengths[flat]
        is_start = np.zeros(int(token_lengths.sum()) + 1, dtype=bool)
        starts = np.cumsum(lengths, dtype=np.int64)
        is_start[0] = True
        is_start[starts[starts < len(is_start)]] = True
        found = is_start[np.cumsum(token_lengths) - token_lengths] | ~is_text
        found[1:] |= ~is_text[:-1]
        return found

    def draw(self, sequences: TokenSequences, word_starts: NDArray[np.bool_], streams: NDArray[np.uint64]) -> TokenSequences:
        """Other segmentations of `sequences`.

        Args:
            sequences: n sequences of plain ids.
            word_starts: [tokens] as the method of this name returns it.
            streams: [n] any numbers; equal ones give equal segmentations of equal sequences.
        """
        flat = sequences.flat
        lengths = self._spelling.lengths[flat]
        symbols = self._spelling.take(flat).flat
        starts = np.cumsum(lengths) - lengths
        words = np.diff(starts[word_starts], append=len(symbols))
        begins = sequences.offsets[:-1]
        sizes = np.diff(starts[begins], append=len(symbols))
        counters = np.repeat(streams, sizes) + ragged_ranges(np.zeros_like(sizes), sizes).astype(np.uint64) * np.uint64(_PLACE_STEP)
        is_token = self._merge(symbols, words, counters)
        ends = np.cumsum(is_token)[np.cumsum(sizes) - 1]
        return TokenSequences(symbols[is_token], np.concatenate([np.zeros(1, dtype=np.int64), ends]))

    def _merge(self, symbols: NDArray[np.int32], words: NDArray[np.int64], counters: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Merge in all words at once, one merge a word and turn.

        Args:
            symbols: [n] the bytes of the words; on return, a token stands where its first byte stood.
            words: [words] bytes of each.
            counters: [n] decide the random numbers.

        Returns:
            [n] where a token begins.
        """
        is_token = np.ones(len(symbols), dtype=bool)
        place = np.flatnonzero(np.repeat(words > 1, words))
        counts = words[words > 1]
        current, counters = symbols[place], counters[place]
        while len(counts):
            ends = np.cumsum(counts)
            keys = self._merges.keys(current)
            keys[ends - 1] = _NONE  # the next symbol is another word's
            if self._limit:
                keys[_mixed(counters) < self._limit] = _NONE
            best = np.minimum.reduceat(keys, ends - counts)
            goes_on = best != _NONE
            chosen = best[goes_on]
            left = chosen & _PLACE
            joined = self._merges.joined[chosen >> _PLACE_BITS]
            current[left] = joined
            symbols[place[left]] = joined
            is_token[place[left + 1]] = False
            remains = np.repeat(goes_on, counts)
            remains[left + 1] = False
            current, place, counters = current[remains], place[remains], counters[remains] + np.uint64(_STEP)
            counts = counts[goes_on] - 1
        return is_token


class ResegmentedCorpus:
    """A corpus whose pairs are cut anew in every epoch, the same way for equal seed, epoch and pair.

    A sentence that would get more tokens than its side's limit keeps its plain segmentation in that epoch.

    Memory holds one bit a token of the corpus: whether it begins a word.

    Args:
        corpus: plain ids.
        tokenizer: the one that wrote them.
        rate: see `RandomSegmentation`.
        seed: of the training.
        limits: the most tokens of a source and of a target, `</s>` included.

    Raises:
        ValueError: the tokenizer is not one that `RandomSegmentation` takes, or its merges do not lead to the ids of the corpus.
    """

    def __init__(
        self, corpus: EncodedCorpus, tokenizer: PreTrainedTokenizerBase, *, rate: float, seed: int, limits: tuple[int, int]
    ) -> None:
        self._corpus, self._seed, self._limits = corpus, seed, limits
        self._segmentation = RandomSegmentation(tokenizer, rate)
        _check(corpus, tokenizer)
        self._sides = (corpus.source, corpus.target)
        self._word_starts = [self._packed_word_starts(side) for side in self._sides]

    def lengths(self, epoch: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """[n] tokens of each source and of each target in an epoch, `</s>` included. Cuts all pairs, and keeps their lengths only."""
        found = [np.empty(len(self._corpus), dtype=np.int32) for _ in self._sides]
        for block in _blocks(len(self._corpus)):
            pairs = self.pairs(block, epoch)
            for lengths, side in zip(found, (pairs.source, pairs.target), strict=True):
                lengths[block] = side.lengths
        return found[0], found[1]

    def pairs(self, indices: NDArray[np.int64], epoch: int) -> TokenPairs:
        """The pairs `indices` [B] as they are cut in an epoch: pair 0 of the result is pair `indices[0]`, and so on."""
        plain = [side.take(indices) for side in self._sides]
        both = TokenSequences.joined(plain)
        word_starts = np.concatenate([
            _bits(packed, ragged_ranges(side.offsets[indices], side.lengths[indices]))
            for packed, side in zip(self._word_starts, self._sides, strict=True)
        ])  # fmt: skip
        streams = np.concatenate([self._streams(indices, epoch, side) for side in range(len(self._sides))])
        drawn = self._segmentation.draw(both, word_starts, streams)
        limits = np.repeat(self._limits, len(indices))
        if np.any(too_long := drawn.lengths > limits):
            drawn = drawn.replaced(too_long, both)
        return TokenPairs(*drawn.halves())

    def _streams(self, indices: NDArray[np.int64], epoch: int, side: int) -> NDArray[np.uint64]:
        """A well-mixed number [B] for each sentence of one side: where its random numbers begin."""
        mixed = np.zeros(1, dtype=np.uint64)
        for number in (self._seed % 2**64, epoch, side):
            mixed = _mixed(mixed + np.array([number], dtype=np.uint64) * np.uint64(_STEP))
        return _mixed(mixed + indices.astype(np.uint64) * np.uint64(_STEP))

    def _packed_word_starts(self, side: TokenSequences) -> NDArray[np.uint8]:
        packed = np.zeros(len(side.flat) // 8 + 1, dtype=np.uint8)
        for block in _blocks(len(side)):
            starts = self._segmentation.word_starts(side.take(block))
            places = side.offsets[block[0]] + np.flatnonzero(starts)
            np.bitwise_or.at(packed, places >> 3, np.uint8(1) << (places & 7).astype(np.uint8))
        return packed


def require_merges(tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer whose merges BPE-dropout cannot leave out.

    Raises:
        ValueError: it is no byte-level BPE, or one that does more than merging.
    """
    remedy = "set `tokenizer.bpe_dropout` to 0, or `tokenizer.method` to `train`."
    if not is_byte_level(tokenizer):
        raise ValueError(f"BPE-dropout leaves merges of a byte-level BPE out, and this tokenizer is another kind; {remedy}")
    model = tokenizer.backend_tokenizer.model
    if model.ignore_merges or model.dropout or model.continuing_subword_prefix or model.end_of_word_suffix:
        raise ValueError(f"BPE-dropout needs a byte-level BPE that merges and does nothing else, which this tokenizer is not; {remedy}")


class _MergeTable:
    """Finds the merge of two neighbouring symbols: a hash table without collisions, so that one look reads all pairs of an array.

    A first hash puts a pair into a bucket, a second one gives its place; each bucket shifts its places to where the table is free, and
    remembers the shift (Belazzougui, Botelho and Dietzfelbinger 2009, "Hash, displace, and compress").

    Args:
        merges: left, right and joined symbol, in the order in which they were learnt.
        entries: number of symbols.
    """

    def __init__(self, merges: Sequence[tuple[int, int, int]], entries: int) -> None:
        table = np.array(merges, dtype=np.int64).reshape(-1, 3)
        self.joined = table[:, 2].astype(np.int32)
        self._entries = entries
        pairs = table[:, 0] * entries + table[:, 1]
        slots = 1 << (_SLOTS_A_MERGE * len(pairs)).bit_length()
        self._mask, self._rest = slots - 1, np.uint64(64 - (len(pairs) // 2 + 1).bit_length())
        generator = np.random.default_rng(0)
        while not self._lay_out(pairs, int(generator.integers(2**63)) | 1):
            pass

    def keys(self, symbols: NDArray[np.int32]) -> NDArray[np.int64]:
        """For each of the symbols [n] and the next one, the merge's number in the upper bits and the place in the lower, or `_NONE`."""
        found = np.full(len(symbols), _NONE)
        pairs = symbols[:-1] * np.int64(self._entries) + symbols[1:]
        buckets, own = self._hashes(pairs)
        slots = (own + self._shifts[buckets]) & self._mask
        places = np.flatnonzero(self._pairs[slots] == pairs)
        found[places] = self._ranks[slots[places]] + places
        return found

    def _hashes(self, pairs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The bucket of each pair, and its place before the shift."""
        mixed = pairs.view(np.uint64) * self._factor
        return (mixed >> self._rest).view(np.int64), (mixed >> _LOW_BITS).view(np.int64) & self._mask

    def _lay_out(self, pairs: NDArray[np.int64], factor: int) -> bool:
        """Fill the table; false if two pairs have equal hashes, and another factor is needed."""
        self._factor = np.uint64(factor)
        self._shifts = np.zeros(1 << 64 - int(self._rest), dtype=np.int64)
        self._pairs = np.full(self._mask + 1, -1, dtype=np.int64)
        self._ranks = np.zeros(self._mask + 1, dtype=np.int64)
        buckets, own = self._hashes(pairs)
        by_bucket = np.argsort(buckets, kind="stable")
        members = np.split(by_bucket, np.flatnonzero(np.diff(buckets[by_bucket])) + 1) if len(pairs) else []
        generator = np.random.default_rng(0)
        for some in sorted(members, key=len, reverse=True):
            if len(np.unique(own[some])) < len(some):
                return False
            slots = own[some]
            while np.any(self._pairs[slots] >= 0):
                shift = generator.integers(self._mask)
                slots = (own[some] + shift) & self._mask
                self._shifts[buckets[some[0]]] = shift
            self._pairs[slots], self._ranks[slots] = pairs[some], some << _PLACE_BITS
        return True


def _check(corpus: EncodedCorpus, tokenizer: PreTrainedTokenizerBase) -> None:
    """With rate 0, the first pairs must come out as they are in the corpus."""
    plain = RandomSegmentation(tokenizer, 0.0)
    for side in (corpus.source, corpus.target):
        some = side.take(np.arange(min(len(corpus), _PAIRS_CHECKED)))
        again = plain.draw(some, plain.word_starts(some), np.zeros(len(some), dtype=np.uint64))
        if not np.array_equal(again.flat, some.flat):
            raise ValueError(
                "The tokenizer's merges alone do not lead to the ids of the training pairs, so BPE-dropout cannot leave some out; set "
                "`tokenizer.bpe_dropout` to 0, or `tokenizer.method` to `train`."
            )


def _blocks(number: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, number, _SENTENCES_AT_ONCE):
        yield np.arange(start, min(start + _SENTENCES_AT_ONCE, number))


def _bits(packed: NDArray[np.uint8], places: NDArray[np.int64]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (packed[places >> 3] >> (places & 7).astype(np.uint8) & 1).astype(bool)
    return found


def _mixed(counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """64 random bits for each counter [n]."""
    bits: NDArray[Any] = counters + np.uint64(_STEP)
    for shift, factor in zip(_SHIFTS, (*_FACTORS, 1), strict=True):
        bits ^= bits >> np.uint64(shift)
        if factor != 1:
            bits *= np.uint64(factor)
    return bits
