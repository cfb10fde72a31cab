"""Noise that a pretraining undoes: what it hides, how much, and that it is the same for equal seed, epoch and text."""

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from vaswani_transformer import add_mask_token, train_tokenizer
from vaswani_transformer.data.encoding import TokenPairs, TokenSequences
from vaswani_transformer.data.noise import NoisedCorpus
from vaswani_transformer.recipe import NoiseSettings

LENGTHS = [1, 2, 3, 8, 20, 60]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return add_mask_token(train_tokenizer(["some text to learn from"] * 2, vocab_size=270))


@pytest.fixture(scope="module")
def texts(tokenizer: PreTrainedTokenizerBase) -> TokenSequences:
    draw = np.random.default_rng(1)
    return TokenSequences.of([[*draw.integers(3, 250, length - 1).tolist(), tokenizer.eos_token_id] for length in LENGTHS], np.int64)


def noised(texts: TokenSequences, tokenizer: PreTrainedTokenizerBase, epoch: int = 3, **settings: object) -> TokenPairs:
    corpus = NoisedCorpus(TokenPairs(texts, texts), tokenizer, NoiseSettings(**settings), seed=5)  # type: ignore[arg-type]
    pairs = corpus.pairs(np.arange(len(texts)), epoch)
    planned = corpus.lengths(epoch)
    assert pairs.source_lengths.tolist() == planned[0].tolist() and pairs.target_lengths.tolist() == planned[1].tolist()
    return pairs


def test_masking_hides_a_share_and_its_targets_are_what_stood_there(texts: TokenSequences, tokenizer: PreTrainedTokenizerBase) -> None:
    pairs, size = noised(texts, tokenizer, share=0.25), len(tokenizer)
    assert pairs.target_lengths.tolist() == [1, 1, 1, 2, 5, 15]
    for text, source, target in zip(texts, pairs.source, pairs.target, strict=True):
        places, tokens = target // size, target % size
        assert np.array_equal(text[places], tokens) and len(set(places.tolist())) == len(places)
        others = np.setdiff1d(np.arange(len(text)), places)
        assert np.array_equal(source[others], text[others])
    many = np.concatenate([noised(texts, tokenizer, epoch, share=0.5).source[5] for epoch in range(60)])
    assert (many == tokenizer.mask_token_id).mean() == pytest.approx(0.5 * 0.8, abs=0.03)


def test_denoising_puts_one_mask_in_the_place_of_a_span(texts: TokenSequences, tokenizer: PreTrainedTokenizerBase) -> None:
    pairs = noised(texts, tokenizer, kind="denoising", share=0.3, mean_span=3.0)
    for text, source, target in zip(texts, pairs.source, pairs.target, strict=True):
        assert np.array_equal(target, text)
        rest = iter(text.tolist())  # what is no mask stands in the text in the same order
        assert all(token in rest for token in source.tolist() if token != tokenizer.mask_token_id)
    # 60 tokens: 18 of 59 are hidden, in 6 spans
    assert (pairs.source[5] == tokenizer.mask_token_id).sum() == 6 and len(pairs.source[5]) == 60 - 18 + 6


@pytest.mark.parametrize("kind", ["masking", "denoising"])
def test_noise_follows_from_seed_epoch_and_text(texts: TokenSequences, tokenizer: PreTrainedTokenizerBase, kind: str) -> None:
    corpus = NoisedCorpus(TokenPairs(texts, texts), tokenizer, NoiseSettings(kind=kind), seed=5)  # type: ignore[arg-type]
    whole, alone = corpus.pairs(np.arange(len(texts)), 2), corpus.pairs(np.array([5]), 2)
    assert np.array_equal(whole.source[5], alone.source[0])
    assert not np.array_equal(whole.source[5], corpus.pairs(np.array([5]), 3).source[0])


def test_a_tokenizer_without_a_mask_is_refused(texts: TokenSequences) -> None:
    with pytest.raises(ValueError, match="no `<mask>`"):
        NoisedCorpus(TokenPairs(texts, texts), train_tokenizer(["text"] * 2, vocab_size=260), NoiseSettings(), seed=1)
