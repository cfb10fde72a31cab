"""What the paper claims: a short quotation, its section, how it is read here, and which results judge it."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.layers.kinds import REFERENCE
from benchmarks.variations.agreement import Direction
from benchmarks.variations.rows import BASE
from benchmarks.why_attention.formulas import cost_of_heads, linear_offsets, scaling_counteracts, small_gradients, variance_is_d_k
from benchmarks.why_attention.heads import aligns_words, different_tasks, follows_structure, shorter_than_d
from benchmarks.why_attention.layers import (
    CONTIGUOUS,
    DILATED,
    RECURRENT,
    cheaper_when_long,
    complexity,
    convolution_beside_recurrence,
    counted,
    faster_below_d,
    is_cheaper,
)
from benchmarks.why_attention.reported import base_beats_all, big_beats_all_by, big_is_cheaper_in_french_than, cost_by_time
from benchmarks.why_attention.trained import (
    Claimed,
    Metric,
    better_translations,
    cheaper_training,
    longer_than_in_training,
    rows_of_table_3,
)
from benchmarks.why_attention.verdicts import Judge


@dataclass(frozen=True)
class Source:
    """Results that a command leaves.

    Attributes:
        files: where they may lie below a folder of results, the first that is there counts.
        command: what leaves them.
    """

    files: tuple[str, ...]
    command: str


SOURCES = {
    "layers": Source(("table_1/results.json", "layers/results.json"), "python -m benchmarks.layers"),
    "formulas": Source(("formulas/results.json",), "python -m benchmarks.formulas"),
    "table_2": Source(("table_2/results.json",), "python -m benchmarks.table_2"),
    "variations": Source(("table_3/results.json",), "python -m benchmarks.variations multi30k_en_de"),
    "longer_texts": Source(("longer_texts/results.json",), "python -m benchmarks.longer_texts"),
    "architectures": Source(("architectures/results.json",), "python -m benchmarks.architectures multi30k_en_de"),
    "heads": Source(("heads/heads.json", "multi30k_en_de/heads.json"), "vaswani heads runs/multi30k_en_de"),
    "dependencies": Source(
        ("heads/figures.json", "multi30k_en_de/figures/figures.json"),
        "vaswani heads runs/multi30k_en_de --figures runs/multi30k_en_de/figures",
    ),
    "alignment": Source(
        ("alignment/results.json", "alignment_benchmark/results.json"), "python -m benchmarks.alignment runs/builtin_tiny/averaged"
    ),
}

SECTIONS = {
    "1": "Introduction",
    "2": "Background",
    "3.2.1": "Scaled dot-product attention",
    "3.2.2": "Multi-head attention",
    "3.5": "Positional encoding",
    "4": "Why self-attention",
    "5.4": "Regularisation",
    "6.1": "Machine translation",
    "6.2": "Model variations",
    "6.3": "English constituency parsing",
    "7": "Conclusion",
}


@dataclass(frozen=True)
class Claim:
    """One claim.

    Attributes:
        section: of the paper, a key of `SECTIONS`.
        quote: the paper's words, or an entry of one of its tables.
        reading: what is asked of the results.
        source: whose results judge it, a key of `SOURCES`; None where nothing here measures it.
        judge: how.
    """

    section: str
    quote: str
    reading: str
    source: str | None
    judge: Judge


def _of(section: str, source: str | None, *each: tuple[str, str, Judge]) -> Iterator[Claim]:
    """The claims of one section that one source judges."""
    yield from (Claim(section, quote, reading, source, judge) for quote, reading, judge in each)


def _complexities() -> Iterator[tuple[str, str, Judge]]:
    """Table 1's first column: an exponent of n and one of d for each type of layer."""
    for quote, title, names in (
        ("O(n^2 · d)", "attention alone", ("bare",)),
        ("O(n^2 · d)", "self-attention with its projections", (REFERENCE, "eager")),
        ("O(n · d^2)", "recurrence", RECURRENT),
        ("O(k · n · d^2)", "convolution", tuple(CONTIGUOUS)),
        ("O(r · n · d)", "restricted self-attention", ("restricted",)),
    ):
        yield quote, f"Table 1: the exponent of n in the time of {title}", complexity("length", *names)
        yield quote, f"Table 1: the exponent of d in the time of {title}", complexity("width", *names)


def _row(name: str, direction: Direction, beside: str = BASE) -> Judge:
    return rows_of_table_3(Claimed(name, direction, beside))


def _smoothing(metric: Metric, direction: Direction) -> Judge:
    return rows_of_table_3(Claimed("D_label_smoothing_0.0", direction, metrics=(metric,)))


_SMALLER, _LARGER = ("C_2_layers", "C_4_layers", "C_d_model_256", "C_d_ff_1024"), ("C_8_layers", "C_d_model_1024", "C_d_ff_4096")

CLAIMS = (
    *_of(
        "1",
        "table_2",
        ("as little as twelve hours on eight P100 GPUs", "time and GPUs give the FLOPs that Table 2 prints", cost_by_time),
    ),
    *_of(
        "2",
        "layers",
        ("reduced to a constant number of operations", "Table 1: path length of self-attention", counted("path_length", REFERENCE)),
    ),
    *_of(
        "3.2.1",
        "layers",
        ("dot-product attention is much faster", "less time than additive attention", is_cheaper(REFERENCE, "additive")),
        ("more space-efficient in practice", "less memory of training than additive", is_cheaper(REFERENCE, "additive", "memory")),
    ),
    *_of(
        "3.2.1",
        "variations",
        (
            "for small values of d_k the two mechanisms perform similarly",
            "additive beside unscaled, with the base's heads",
            _row("additive", "same", "unscaled"),
        ),
        (
            "additive attention outperforms dot product attention without scaling for larger values of d_k",
            "additive beside unscaled, with a single head",
            _row("additive_1_head", "better", "unscaled_1_head"),
        ),
        (
            "we scale the dot products",
            "unscaled beside scaled, with a single head: worse",
            _row("unscaled_1_head", "worse", "A_1_heads"),
        ),
    ),
    *_of(
        "3.2.1",
        "formulas",
        ("has mean 0 and variance d_k", "the variance of random dot products", variance_is_d_k),
        (
            "regions where it has extremely small gradients",
            "norm of the softmax's Jacobian, unscaled over scaled, at the largest d_k",
            small_gradients,
        ),
        ("To counteract this effect", "the same norm with the scaling does not depend on d_k", scaling_counteracts),
    ),
    *_of(
        "3.2.2",
        "formulas",
        (
            "total computational cost is similar to that of single-head attention",
            "operations of a self-attention layer with several heads and with one",
            cost_of_heads,
        ),
    ),
    *_of("3.5", "formulas", ("can be represented as a linear function", "of the encodings k positions before", linear_offsets)),
    *_of(
        "3.5",
        "longer_texts",
        (
            "may allow the model to extrapolate",
            "on longer texts than in training, sinusoids are better than learned positions",
            longer_than_in_training,
        ),
    ),
    *_of(
        "4",
        "layers",
        *_complexities(),
        (
            "a constant number of sequentially executed operations",
            "Table 1: sequential operations of self-attention",
            counted("sequential_operations", REFERENCE, "restricted"),
        ),
        (
            "a recurrent layer requires O(n) sequential operations",
            'Table 1, and section 1: "precludes parallelization"',
            counted("sequential_operations", *RECURRENT),
        ),
        ("O(n)", "Table 1: path length of recurrence", counted("path_length", *RECURRENT)),
        ("self-attention layers are faster than recurrent layers when [n] is smaller", "than d, at all measured n below d", faster_below_d),
        ("could be restricted to considering only a neighborhood", "less time than unrestricted, at the longest n", cheaper_when_long),
        ("increase the maximum path length to O(n/r)", "path length of restricted self-attention", counted("path_length", "restricted")),
        ("a stack of O(n/k) convolutional layers", "path length of contiguous kernels", counted("path_length", *CONTIGUOUS)),
        ("O(log_k(n)) in the case of dilated convolutions", "path length of dilated kernels", counted("path_length", *DILATED)),
        ("more expensive than recurrent layers, by a factor of k", "time beside recurrence", convolution_beside_recurrence),
        (
            "Separable convolutions [...] decrease the complexity considerably",
            "less time than the whole convolution, k = 7",
            is_cheaper("separable_7", "convolution_7"),
        ),
    ),
    *_of(
        "4",
        "heads",
        ("most often the case with sentence representations", "pieces of a sentence beside d of the base model", shorter_than_d),
        ("individual attention heads clearly learn to perform different tasks", "what heads look at", different_tasks),
    ),
    *_of(
        "4",
        "dependencies",
        (
            "syntactic and semantic structure of the sentences",
            "a head follows pronouns",
            follows_structure,
        ),
    ),
    *_of(
        "4",
        "alignment",
        ("could yield more interpretable models", "cross-attention aligns words with fewer errors than a diagonal", aligns_words),
    ),
    *_of(
        "5.4",
        "variations",
        ("hurts perplexity", "row D: without label smoothing, the perplexity is better", _smoothing("nll", "better")),
        ("improves accuracy and BLEU score", "row D: without label smoothing, BLEU is worse", _smoothing("bleu", "worse")),
    ),
    *_of(
        "6.1",
        "table_2",
        ("by more than 2.0 BLEU", "big beside the best of others, English-German", big_beats_all_by(2.0)),
        (
            "surpasses all previously published models and ensembles, at a fraction of the training cost",
            "base beside all others, English-German",
            base_beats_all,
        ),
        ("at less than 1/4 the training cost", "big beside the best single model, English-French", big_is_cheaper_in_french_than(1 / 4)),
    ),
    *_of(
        "6.1",
        "architectures",
        ("surpasses all previously published models", "BLEU here, same text, parameters and target tokens", better_translations),
        ("at a fraction of the training cost", "FLOPs here, same target tokens", cheaper_training("flops", "FLOPs")),
    ),
    *_of(
        "6.2",
        "variations",
        (
            "single-head attention is 0.9 BLEU worse than the best setting",
            'row A, and section 3.2.2: with a single head, "averaging inhibits this"',
            _row("A_1_heads", "worse"),
        ),
        ("quality also drops off with too many heads", "row A: four times as many heads are worse", _row("A_32_heads", "worse")),
        (
            "reducing the attention key size d_k hurts model quality",
            "rows B are worse",
            rows_of_table_3(Claimed("B_d_k_16", "worse"), Claimed("B_d_k_32", "worse")),
        ),
        (
            "a more sophisticated compatibility function than dot product may be beneficial",
            "additive attention is better than the base",
            _row("additive", "better"),
        ),
        (
            "bigger models are better",
            "rows C: smaller ones are worse, larger ones better",
            rows_of_table_3(*(Claimed(name, "worse") for name in _SMALLER), *(Claimed(name, "better") for name in _LARGER)),
        ),
        ("dropout is very helpful in avoiding over-fitting", "row D: without dropout, worse", _row("D_dropout_0.0", "worse")),
        ("nearly identical results to the base model", "row E, and section 3.5: learned positions", _row("E_learned_positions", "same")),
    ),
    Claim(
        "6.3", "generalizes well to English constituency parsing", "the caption of Table 4: scores of a parser", None, lambda results: None
    ),
    *_of(
        "7",
        "architectures",
        (
            "trained significantly faster than architectures based on recurrent or convolutional layers",
            "processor's time here, same target tokens",
            cheaper_training("cpu_seconds", "processor's time"),
        ),
    ),
)
"""In the order of the paper's sections. What the paper says twice stands once."""
