"""A search within a shortlist is the full search with all other tokens forbidden, for every sentence as if it were alone."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, LogitsProcessor, LogitsProcessorList, PreTrainedTokenizerBase, pipeline

from tests.processor import BFLOAT16
from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.data.shortlisting import save_shortlist
from vaswani_transformer.decoding import PAPER_SEARCH
from vaswani_transformer.shortlist import SHORTLIST_FILE, Shortlist
from vaswani_transformer.tokenizer_identity import tokenizer_hash
from vaswani_transformer.translation.translate import Translator, translate

ENTRIES, END = 300, 2
SOURCES = [[5, 9, 17, 40, END], [7, END], [100, 101, 102, 103, 104, 105, END]]
LENGTHS = [1, 4]
"""Beams."""


def build_model(tokenizer: PreTrainedTokenizerBase | None = None, **settings: Any) -> VaswaniForConditionalGeneration:
    torch.manual_seed(3)
    settings = {"vocab_size": ENTRIES if tokenizer is None else len(tokenizer), "encoder_layers": 1, "decoder_layers": 2, **settings}
    model = VaswaniForConditionalGeneration(VaswaniConfig.from_preset("tiny", d_model=32, **settings)).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.3)
    model.generation_config.update(**PAPER_SEARCH | {"extra_length": 6}, allow_custom_entries=True)
    return model


def random_shortlist(entries: int = ENTRIES, width: int = 12, **facts: str) -> Shortlist:
    draw = torch.Generator().manual_seed(1)
    listed = torch.randint(3, entries, (entries, width), generator=draw)
    listed[:, -2:] = -1
    return Shortlist(listed, torch.tensor([END, 20, 21]), entries, facts)


def batch(sources: list[list[int]]) -> dict[str, torch.Tensor]:
    longest = max(map(len, sources))
    ids = torch.tensor([source + [0] * (longest - len(source)) for source in sources])
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


class Masked(LogitsProcessor):
    """The reference: whatever a sentence's list, made with Python's sets, does not hold is forbidden, and the softmax is over the rest."""

    def __init__(self, shortlist: Shortlist, sources: list[list[int]]) -> None:
        self.lists = [
            sorted({int(t) for token in source for t in shortlist.listed[token] if t >= 0} | set(shortlist.frequent.tolist()) | {END})
            for source in sources
        ]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        masked = torch.full_like(scores, -torch.inf)
        beams = len(scores) // len(self.lists)
        for row in range(len(scores)):
            kept = self.lists[row // beams]
            masked[row, kept] = scores[row, kept]
        return masked.log_softmax(-1)


def generate(model: VaswaniForConditionalGeneration, sources: list[list[int]], **settings: Any) -> tuple[list[list[int]], torch.Tensor]:
    found: Any = model.generate(**batch(sources), return_dict_in_generate=True, output_scores=False, **settings)
    rows = [[token for token in row if token != 0] for row in found.sequences.tolist()]
    return rows, found.get("sequences_scores", torch.zeros(0))


@pytest.mark.parametrize("penalty", ["gnmt", None])
@pytest.mark.parametrize("beams", LENGTHS)
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_the_full_search_with_all_others_forbidden(beams: int, penalty: str | None, bias: bool) -> None:
    model = build_model(lm_head_bias=bias)
    if bias:
        torch.nn.init.normal_(model.lm_head.bias)
    model.shortlist = random_shortlist()
    settings = {"num_beams": beams, "length_penalty_type": penalty}
    found, scores = generate(model, SOURCES, shortlist=True, **settings)
    rules = LogitsProcessorList([Masked(model.shortlist, SOURCES)])
    expected, expected_scores = generate(model, SOURCES, logits_processor=rules, **settings)
    assert found == expected
    torch.testing.assert_close(scores, expected_scores)
    assert found != generate(model, SOURCES, **settings)[0]  # the list does forbid something


@pytest.mark.parametrize("dtype", [None, "float32", BFLOAT16, "float16", "int8"])
@pytest.mark.parametrize("beams", LENGTHS)
def test_packed_rows_are_rows_of_the_packed_product(beams: int, dtype: Any) -> None:
    model = build_model()
    if dtype:
        model.pack_weights(dtype)
    model.shortlist = random_shortlist()
    for source in SOURCES:
        found, scores = generate(model, [source], shortlist=True, num_beams=beams)
        rules = LogitsProcessorList([Masked(model.shortlist, [source])])
        expected, expected_scores = generate(model, [source], logits_processor=rules, num_beams=beams)
        assert found == expected
        torch.testing.assert_close(scores, expected_scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("beams", LENGTHS)
def test_a_translation_does_not_depend_on_its_batch(beams: int, dtype: Any) -> None:
    model = build_model().pack_weights(dtype)
    model.shortlist = random_shortlist()
    together, scores = generate(model, SOURCES, shortlist=True, num_beams=beams)
    for i, source in enumerate(SOURCES):
        alone, score = generate(model, [source], shortlist=True, num_beams=beams)
        assert alone[0] == together[i]
        torch.testing.assert_close(score, scores[i : i + len(score)], rtol=1e-3, atol=1e-5)
    assert not model.shortlist.choose(**mask(SOURCES)).forbidden.any(0).logical_not().all()  # their lists do differ


def mask(sources: list[list[int]]) -> dict[str, torch.Tensor]:
    given = batch(sources)
    return {"source_ids": given["input_ids"], "mask": given["attention_mask"]}


@pytest.mark.parametrize(
    "rule", [{"min_new_tokens": 5}, {"no_repeat_ngram_size": 1}, {"forced_eos_token_id": END}, {"suppress_tokens": [20, 21]}], ids=str
)
@pytest.mark.parametrize("beams", LENGTHS)
def test_rules_of_a_caller_hold_within_it(beams: int, rule: dict[str, Any]) -> None:
    model = build_model()
    model.shortlist = random_shortlist()
    found, scores = generate(model, SOURCES, shortlist=True, num_beams=beams, **rule)
    if beams == 1:
        rules = LogitsProcessorList([Masked(model.shortlist, SOURCES)])
        expected, slower = generate(model, SOURCES, logits_processor=rules, num_beams=beams, **rule)
    else:  # there, the reference would renormalise after the caller's rule
        model.model.decoder.register_forward_hook(lambda *_: None)
        expected, slower = generate(model, SOURCES, shortlist=True, num_beams=beams, **rule)
    assert found == expected
    torch.testing.assert_close(scores, slower)


def test_layers_that_must_be_called_give_the_same() -> None:
    model = build_model()
    model.shortlist = random_shortlist()
    expected, scores = generate(model, SOURCES, shortlist=True)
    model.model.decoder.register_forward_hook(lambda *_: None)
    found, slower = generate(model, SOURCES, shortlist=True)
    assert found == expected
    torch.testing.assert_close(slower, scores)


def test_samples_are_of_the_list() -> None:
    model = build_model()
    model.shortlist = random_shortlist()
    torch.manual_seed(0)
    found = model.generate(**batch(SOURCES), shortlist=True, num_beams=1, do_sample=True, num_return_sequences=3, top_k=0)
    lists = Masked(model.shortlist, SOURCES).lists
    for row, sampled in enumerate(found.tolist()):
        assert {token for token in sampled[1:] if token} <= set(lists[row // 3])


def test_padding_lists_nothing() -> None:
    listed = torch.tensor([[7], [-1], [-1], [4]])
    choice = Shortlist(torch.cat((listed, torch.full((6, 1), -1))), torch.tensor([2]), 10).choose(
        torch.tensor([[3, 0], [5, 3]]), torch.tensor([[1, 0], [1, 1]])
    )
    assert choice.columns[~choice.forbidden[0]].tolist() == [2, 4]
    assert choice.of_vocabulary(10).logical_not().nonzero().tolist() == [[0, 2], [0, 4], [1, 2], [1, 4]]


@pytest.fixture
def folder(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> Path:
    build_model(tokenizer, tie_word_embeddings=False).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def own_shortlist(tokenizer: PreTrainedTokenizerBase) -> Shortlist:
    return random_shortlist(len(tokenizer), tokenizer=tokenizer_hash(tokenizer), source_language="en", target_language="de")


@pytest.mark.parametrize("use", [False, True])
def test_it_lies_beside_the_weights(folder: Path, tokenizer: PreTrainedTokenizerBase, use: bool) -> None:
    save_shortlist(folder, own_shortlist(tokenizer), ["shortlist"] * use)
    translator = pipeline("translation", model=str(folder), device="cpu")
    plain, within = (translator("A man reads.", shortlist=asked) for asked in (False, True))
    assert plain != within
    assert translator("A man reads.") == (within if use else plain)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda folder, own: None, "has no shortlist.safetensors"),
        (lambda folder, own: (folder / SHORTLIST_FILE).write_bytes(own.to_bytes()[:-9]), "damaged or no shortlist"),
        (lambda folder, own: save_shortlist(folder, random_shortlist(len(own.listed), tokenizer="another")), "another tokenizer"),
        (lambda folder, own: save_shortlist(folder, random_shortlist(299)), "for 299 source and 299 target tokens"),
    ],
)
def test_what_does_not_fit_is_refused(
    folder: Path, tokenizer: PreTrainedTokenizerBase, spoil: Callable[[Path, Shortlist], None], sentence: str
) -> None:
    spoil(folder, own_shortlist(tokenizer))
    model = VaswaniForConditionalGeneration.from_pretrained(folder)
    with pytest.raises(ValueError, match=sentence):
        model.generate(**batch(SOURCES[1:2]), shortlist=True)


def test_other_languages_are_refused(folder: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    save_shortlist(folder, own_shortlist(tokenizer))
    own = AutoTokenizer.from_pretrained(folder)
    translator = pipeline("translation_de_to_en", model=str(folder), tokenizer=own, device="cpu")
    with pytest.raises(ValueError, match="from en into de, not for de"):
        translator("Ein Mann liest.", shortlist=True)
    assert translator("Ein Mann liest.")
    model = VaswaniForConditionalGeneration.from_pretrained(folder)
    for search in (translate, lambda *given, **settings: Translator(*given[:2], **settings)):
        with pytest.raises(ValueError, match="from en into de, not for fr"):
            search(model, own, ["A man reads."], target_language="fr", shortlist=True)


def test_a_model_whose_heads_propose_from_it_keeps_it(folder: Path, tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    model = VaswaniForConditionalGeneration.from_pretrained(folder)
    model.generation_config.update(draft_shortlist=True, allow_custom_entries=True)
    with pytest.raises(ValueError, match=r"which the setting `draft_shortlist` asks for; make it .*, or pass draft_shortlist=False"):
        model.save_pretrained(tmp_path / "saved")
    save_shortlist(folder, own_shortlist(tokenizer), use=["draft_shortlist"])
    VaswaniForConditionalGeneration.from_pretrained(folder).save_pretrained(tmp_path / "saved")
    assert torch.equal(Shortlist.read(tmp_path / "saved" / SHORTLIST_FILE).listed, own_shortlist(tokenizer).listed.int())


def test_a_saved_model_keeps_it(folder: Path, tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    save_shortlist(folder, own_shortlist(tokenizer), use=["shortlist"])
    model = VaswaniForConditionalGeneration.from_pretrained(folder)
    model.save_pretrained(tmp_path / "saved")
    tokenizer.save_pretrained(tmp_path / "saved")
    shutil.rmtree(folder)
    again = VaswaniForConditionalGeneration.from_pretrained(tmp_path / "saved")
    assert torch.equal(again.generate(**batch(SOURCES)), model.generate(**batch(SOURCES)))
    assert not torch.equal(again.generate(**batch(SOURCES)), again.generate(**batch(SOURCES), shortlist=False))


def test_impossible_settings_are_refused() -> None:
    model = build_model()
    model.shortlist = random_shortlist()
    with pytest.raises(ValueError, match="shortlist is 'yes'"):
        model.generate(**batch(SOURCES), shortlist="yes")
    with pytest.raises(ValueError, match="draft='source' proposes tokens of the whole vocabulary"):
        model.generate(**batch(SOURCES), shortlist=True, draft="source", num_beams=1)
    with pytest.raises(ValueError, match="needs the token ids of the sources"):
        model.generate(inputs_embeds=torch.zeros(1, 3, 32), shortlist=True)
    with pytest.raises(ValueError, match="ids outside the 300 target tokens"):
        Shortlist(torch.tensor([[300]]), torch.tensor([2]), 300)
