"""A question and a text in, the answer and its place in the text out."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForQuestionAnswering, PreTrainedTokenizerFast, pipeline
from transformers.modeling_outputs import QuestionAnsweringModelOutput
from transformers.pipelines.pt_utils import KeyDataset

from vaswani_transformer import (
    QuestionAnsweringPipeline,
    VaswaniConfig,
    VaswaniForConditionalGeneration,
    VaswaniForQuestionAnswering,
    train_tokenizer,
)
from vaswani_transformer.answer_windows import probabilities, told

SIZES: dict[str, Any] = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32, "decoder_ffn_dim": 32,
}  # fmt: skip
TEXTS = ["naïve café in Zürich", "ﬁne oﬃce 😀 👨‍👩‍👧 ok", "e\u0301te\u0301 a dog", "हिन्दी is old"]
WORDS = ["the", "old", "man", "reads", "a", "book", "in", "zürich", "and", "dog", "of", "house", "where", "is", "who"]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer([*TEXTS, " ".join(WORDS), "a Zürich of the dog"] * 4, 340)


def randomised(model: Any) -> Any:
    torch.manual_seed(0)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


@pytest.fixture(scope="module")
def ours(tokenizer: PreTrainedTokenizerFast) -> QuestionAnsweringPipeline:
    model = randomised(VaswaniForQuestionAnswering(VaswaniConfig(vocab_size=len(tokenizer), **SIZES)))
    return pipeline("question-answering", model=model, tokenizer=tokenizer, device="cpu")


def window(starts: list[float], ends: list[float], first: list[int], last: list[int]) -> dict[str, Any]:
    """A window with these chances (of any sum), whose first position stands for no answer; places of 0 to 0 are not the context's."""
    return {
        "start_scores": torch.tensor([starts]).log(),
        "end_scores": torch.tensor([ends]).log(),
        "is_context": torch.tensor([[int(end > 0) for end in last]]),
        "stands_for_none": torch.tensor([[1] + [0] * (len(last) - 1)]),
        "first": torch.tensor([first]),
        "last": torch.tensor([last]),
    }


def test_chances_of_one_window_by_hand() -> None:
    """Starts .2 (none), .5, .3 and ends .1, .1, .8; what is neither the context's nor stands for none takes no part."""
    one = window([2, 5, 3, 99], [1, 1, 8, 99], [0, 0, 4, 0], [0, 3, 9, 0])
    found, none = probabilities([one], 15)
    assert found == pytest.approx({(0, 3): 0.05, (0, 9): 0.4, (4, 9): 0.24})
    assert none == pytest.approx(0.02)
    assert probabilities([one], 1)[0] == pytest.approx({(0, 3): 0.05, (4, 9): 0.24})


def test_chances_of_windows_that_overlap_by_hand() -> None:
    """The first window's pairs weigh (2 + 2) (1 + 1) = 8, without its own none, which is likelier; the second's (1 + 2 + 3) 3 = 18."""
    windows = [window([4, 2, 2], [1, 1, 1], [0, 0, 2], [0, 1, 3]), window([1, 2, 3], [1, 1, 1], [0, 2, 4], [0, 3, 5])]
    found, none = probabilities(windows, 15)
    assert found == pytest.approx({(0, 1): 2 / 26, (0, 3): 2 / 26, (2, 3): 4 / 26, (2, 5): 2 / 26, (4, 5): 3 / 26})
    assert none == pytest.approx(1 / 26)


def test_the_same_words_are_one_answer_at_their_likeliest_place() -> None:
    answers = told({(0, 3): 0.1, (3, 7): 0.2, (4, 7): 0.05, (3, 4): 0.4}, "Dog dog")
    assert answers == [{"score": pytest.approx(0.35), "start": 4, "end": 7, "answer": "dog"}]


@pytest.mark.parametrize("text", TEXTS)
def test_answers_are_whole_words_exactly_where_they_stand(text: str, ours: QuestionAnsweringPipeline) -> None:
    words = text.split()
    begins = [text.index(word) for word in words]
    every = {text[a : b + len(word)] for i, a in enumerate(begins) for word, b in zip(words[i:], begins[i:], strict=True)}
    answers = ours(question="Where?", context=text, top_k=1000, max_answer_len=100)
    assert {answer["answer"] for answer in answers} == every
    pieces = ours(question="Where?", context=text, top_k=1000, max_answer_len=100, align_to_words=False)
    assert len(pieces) > len(answers)
    for answer in [*answers, *pieces]:
        assert answer["answer"] == text[answer["start"] : answer["end"]] == answer["answer"].strip() != ""
    for found in (answers, pieces):
        assert [answer["score"] for answer in found] == sorted((answer["score"] for answer in found), reverse=True)


class PlantedForQuestionAnswering(VaswaniForQuestionAnswering):
    """Sees the answer from one token to another, wherever they stand, and at the first position that there is none."""

    first_and_last = (0, 0)
    at_none = 0.0

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> QuestionAnsweringModelOutput:  # type: ignore[override]
        assert not self.training
        scores = [30.0 * (input_ids == token) for token in self.first_and_last]
        for one in scores:
            one[torch.arange(len(one)), attention_mask.argmax(1)] = self.at_none
        return QuestionAnsweringModelOutput(start_logits=scores[0], end_logits=scores[1])


@pytest.mark.parametrize("side", ["right", "left"])
def test_an_answer_deep_in_a_long_text_is_found(side: str, tokenizer: PreTrainedTokenizerFast) -> None:
    context = " ".join([*["a old 😀"] * 30, "in a Zürich of  the dog", *["naïve house"] * 30])
    model = PlantedForQuestionAnswering(VaswaniConfig(vocab_size=len(tokenizer), **SIZES)).train()
    sided = tokenizer.__class__(tokenizer_object=tokenizer.backend_tokenizer, pad_token="<pad>", eos_token="</s>", padding_side=side)
    pieces = tokenizer("Zürich the")["input_ids"]
    model.first_and_last = pieces[0], pieces[-2]
    assert len(pieces) == 3
    read = pipeline("question-answering", model=model, tokenizer=sided, device="cpu", max_seq_len=32, doc_stride=12)
    for size in (1, 5):
        answer = read(question="who", context=context, batch_size=size)
        assert answer.pop("score") == pytest.approx(1, abs=1e-6)
        assert answer == {"start": context.index("Zürich"), "end": context.index(" dog"), "answer": "Zürich of  the"}
    assert model.training


def test_there_may_be_no_answer(tokenizer: PreTrainedTokenizerFast) -> None:
    model = PlantedForQuestionAnswering(VaswaniConfig(vocab_size=len(tokenizer), **SIZES))
    read = pipeline("question-answering", model=model, tokenizer=tokenizer, device="cpu")
    model.first_and_last = (tokenizer("dog")["input_ids"][0],) * 2
    both = {"question": "who", "context": "in the house"}
    model.at_none = 9.0
    assert read(both)["answer"] != ""
    none = read(both, handle_impossible_answer=True)
    pieces = len(tokenizer("in the house")["input_ids"]) - 1
    assert none == {"score": pytest.approx((math.exp(9) / (math.exp(9) + pieces)) ** 2), "start": 0, "end": 0, "answer": ""}
    assert read(both, handle_impossible_answer=True, top_k=2)[0] == none
    model.at_none = -9.0
    assert read(both, handle_impossible_answer=True)["answer"] != ""


def test_every_way_to_ask_gives_the_same(ours: QuestionAnsweringPipeline) -> None:
    datasets = pytest.importorskip("datasets")
    pairs = [{"question": "Where?", "context": TEXTS[0]}, {"question": "Who is old?", "context": TEXTS[0]}]
    expected = [ours(**pair) for pair in pairs]
    assert [list(answer) for answer in expected] == [["score", "start", "end", "answer"]] * 2
    assert [ours(pair) for pair in pairs] == [ours(*pair.values()) for pair in pairs] == expected
    questions = [pair["question"] for pair in pairs]
    rows = datasets.Dataset.from_list([{"row": pair} for pair in pairs])
    for found in (
        ours(pairs), ours(tuple(pairs)), ours(question=questions, context=TEXTS[0]), ours(question=questions, context=[TEXTS[0]] * 2),
        list(ours(pair for pair in pairs)), list(ours(KeyDataset(rows, "row"))), ours(rows["row"]),
    ):  # fmt: skip
        assert found == expected
    together = ours(pairs, batch_size=2, top_k=3)
    for answers, best in zip(together, expected, strict=True):
        assert len(answers) == 3
        assert answers[0]["answer"] == best["answer"] and answers[0]["score"] == pytest.approx(best["score"])
    assert ours([]) == [] and ours([pairs[0]]) == expected[:1]


def test_streams_are_read_as_they_are_asked_for(ours: QuestionAnsweringPipeline) -> None:
    read: list[str] = []

    def pairs() -> Iterator[dict[str, str]]:
        for text in TEXTS:
            read.append(text)
            yield {"question": "Where?", "context": text}

    answers = iter(ours(pairs()))
    assert next(answers) == ours(question="Where?", context=TEXTS[0])
    assert len(read) < len(TEXTS)


def test_a_long_question_is_cut(ours: QuestionAnsweringPipeline) -> None:
    shortest = ours(question="naïve café", context=TEXTS[0])
    pieces = len(ours.tokenizer("naïve café")["input_ids"]) - 1
    assert ours(question="naïve café in Zürich " * 9, context=TEXTS[0], max_question_len=pieces) == shortest
    assert ours(question="naïve café in Zürich", context=TEXTS[0]) != shortest


@pytest.fixture(scope="module")
def bert() -> QuestionAnsweringPipeline:
    """A BERT that knows nothing; `[CLS]` stands for no answer."""
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS, "##s", "##h"]
    backend = Tokenizer(models.WordPiece({entry: i for i, entry in enumerate(entries)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(strip_accents=False)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip
    config = BertConfig(
        vocab_size=len(entries), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=24,
    )  # fmt: skip
    return pipeline("question-answering", model=randomised(BertForQuestionAnswering(config)), tokenizer=tokenizer, device="cpu")


def test_other_models_answer_too(bert: QuestionAnsweringPipeline) -> None:
    """Each span of tokens by hand; transformers 4.57 gives the same to the ninth digit where the text fits into one window."""
    context = "The old man, of Zürich. reads books"
    places = [(0, 3), (4, 7), (8, 11), (11, 12), (13, 15), (16, 22), (22, 23), (24, 29), (30, 34), (34, 35)]
    inputs = bert.tokenizer("Who reads?", context, return_tensors="pt")
    assert inputs["token_type_ids"].sum() == len(places) + 1
    output = bert.model(**inputs)
    counts = torch.tensor([0, *range(inputs["input_ids"].shape[1] - len(places) - 1, inputs["input_ids"].shape[1] - 1)])
    starts, ends = (scores[0, counts].softmax(0).tolist() for scores in (output.start_logits, output.end_logits))
    expected = {
        (places[i][0], places[j][1]): starts[i + 1] * ends[j + 1] for i in range(len(places)) for j in range(i, min(i + 4, len(places)))
    }
    settings: dict[str, Any] = {"top_k": 99, "max_answer_len": 4, "align_to_words": False, "handle_impossible_answer": True}
    found = bert(question="Who reads?", context=context, **settings)
    assert {(answer["start"], answer["end"]): answer["score"] for answer in found} == pytest.approx(
        expected | {(0, 0): starts[0] * ends[0]}
    )
    whole = bert(question="Who reads?", context=context, top_k=99)
    assert any(answer["answer"] == "books" for answer in whole) and not any(answer["answer"] == "s" for answer in whole)


def test_a_window_is_no_longer_than_the_model_allows(bert: QuestionAnsweringPipeline) -> None:
    answers = bert(question="Who reads?", context="the old man reads a book " * 9, top_k=400, batch_size=3, max_answer_len=30)
    assert sum(answer["score"] for answer in answers) < 1
    assert max(answer["end"] for answer in answers) > 90  # beyond the first window
    with pytest.raises(ValueError, match="Windows of 24 tokens that share 20 leave no room for the context beside a question of 3"):
        bert(question="Who reads?", context="the old man", doc_stride=20)


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"question": "who", "context": ""}, "The input has a blank context"),
        ({"question": " \n", "context": "a"}, "The input has a blank question"),
        ([{"question": "who", "context": "a"}, {"question": "who"}], "Item 1 of the input has no context"),
        ([{"question": "who", "context": 7}], r"Item 0 of the input's context is 7 \(int\)"),
        ({"question": "who", "context": "a \ud83d"}, "half a surrogate pair"),
        ("who", r"The input is 'who' \(str\)"),
        (3, r"The input is 3 \(int\)"),
    ],
)
def test_wrong_input_gives_one_sentence(inputs: Any, sentence: str, ours: QuestionAnsweringPipeline) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence) as error:
        ours(inputs)
    assert "\n" not in str(error.value)


def test_wrong_settings_give_one_sentence(ours: QuestionAnsweringPipeline) -> None:
    for settings, sentence in (
        ({"top_k": 0}, "`top_k` is 0; it must be a whole number from 1"),
        ({"max_answer_len": 1.5}, "`max_answer_len` is 1.5"),
        ({"doc_stride": -1}, "`doc_stride` is -1; it must be a whole number from 0"),
        ({"max_seq_len": 3}, "Windows of 3 tokens"),
    ):
        with pytest.raises(ValueError, match=sentence):
            ours(question="where", context="in a house", **settings)
    with pytest.raises(ValueError, match="There are 2 questions and 1 contexts"):
        ours(question=["who", "where"], context=["a house"])
    with pytest.raises(TypeError, match="0 inputs beside question= and context="):
        ours()


def test_models_that_mark_no_answers_are_refused(tokenizer: PreTrainedTokenizerFast) -> None:
    translator = VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=len(tokenizer), **SIZES))
    with pytest.raises(ValueError, match="VaswaniForConditionalGeneration marks no answer in a text"):
        pipeline("question-answering", model=translator, tokenizer=tokenizer, device="cpu")
    reader = VaswaniForQuestionAnswering(VaswaniConfig(vocab_size=len(tokenizer), **SIZES))
    with pytest.raises(ValueError, match="needs its tokenizer"):
        QuestionAnsweringPipeline(model=reader, task="question-answering", device="cpu")
