"""Contexts cut into windows: every token where it stands, every answer in each window that holds it, the same for training and pipeline."""

import itertools

import pytest
import torch
from transformers import PreTrainedTokenizerFast, pipeline

from vaswani_transformer import VaswaniConfig, VaswaniForQuestionAnswering, train_tokenizer
from vaswani_transformer.answer_windows import Window, cut_into_windows

CONTEXT = " ".join(["the old 😀 man"] * 9 + ["naïve café in Zürich"] + ["reads ﬁne books"] * 9)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(["the old man reads a book in Zürich", "where is the naïve dog"] * 3, vocab_size=300)


@pytest.mark.parametrize("answer", ["Zürich", "café in", "the", "books", "é"])
def test_an_answer_is_marked_in_each_window_that_holds_it(answer: str, tokenizer: PreTrainedTokenizerFast) -> None:
    start = CONTEXT.rindex(answer)
    end = start + len(answer)
    windows = cut_into_windows(tokenizer, "where is", CONTEXT, 40, 12, whole_words=False)
    assert len(windows) > 4 and {len(window.places) for window in windows[:-1]} == {40}
    held = []
    for window in windows:
        places = [place for place in window.places if place is not None]
        first, last = window.positions_of(start, end)
        if (first, last) == (window.none, window.none):
            assert places[0][0] > start or places[-1][1] < end
            continue
        held.append(window)
        marked = [window.places[first], window.places[last]]
        assert None not in marked
        found = CONTEXT[marked[0][0] : marked[1][1]]
        assert found.strip() == answer or answer == "é"  # one byte more on either side would be another word
        shorter = [window.places[first + 1], window.places[last - 1]]
        assert shorter[0] is None or shorter[0][0] >= start or shorter[0] == marked[0]
        assert tokenizer.decode(window.inputs["input_ids"][first : last + 1]).strip().endswith(answer)
    assert held


def test_windows_share_the_overlap_and_reach_the_end(tokenizer: PreTrainedTokenizerFast) -> None:
    windows = cut_into_windows(tokenizer, "where is", CONTEXT, 40, 12, whole_words=False)
    pieces = [[place for place in window.places if place is not None] for window in windows]
    assert all(before[-12:] == after[:12] for before, after in itertools.pairwise(pieces))
    whole = tokenizer(CONTEXT, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    assert [*pieces[0], *(place for piece in pieces[1:] for place in piece[12:])] == whole
    with pytest.raises(ValueError, match="Windows of 12 tokens that share 11 leave no room"):
        cut_into_windows(tokenizer, "where is", CONTEXT, 12, 11, whole_words=False)


@pytest.mark.parametrize("question", ["😀" * 20, "who is 😀😀😀", "a" + " " * 20, "ééé", "who is the man that reads"])
def test_a_question_is_cut_to_whole_characters_of_as_many_tokens(question: str, tokenizer: PreTrainedTokenizerFast) -> None:
    def tokens(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    for longest in range(1, tokens(question) + 1):
        windows = cut_into_windows(tokenizer, question, CONTEXT, longest + 12, 9, longest, whole_words=False)
        (asked,) = {tokenizer.decode(window.inputs["input_ids"]).split("</s>")[0] for window in windows}
        assert question.startswith(asked)
        assert longest - 4 <= tokens(asked) <= longest  # a space and three bytes of a character may be too many


def test_the_pipeline_reads_the_same_windows(tokenizer: PreTrainedTokenizerFast) -> None:
    config = VaswaniConfig.from_preset("tiny", vocab_size=len(tokenizer), encoder_layers=1)
    config.task_specific_params = {"question-answering": {"max_seq_len": 40, "doc_stride": 12, "max_answer_len": 2}}
    torch.manual_seed(1)
    read = pipeline("question-answering", model=VaswaniForQuestionAnswering(config), tokenizer=tokenizer, device="cpu")
    own = list(read.preprocess({"question": "where is", "context": CONTEXT}, **read._preprocess_params))
    windows = cut_into_windows(tokenizer, "where is", CONTEXT, 40, 12, whole_words=True)
    assert [each["input_ids"][0].tolist() for each in own] == [window.inputs["input_ids"] for window in windows]
    assert [each["first"][0].tolist() for each in own] == [window.columns()["first"] for window in windows]
    both = {"question": "where is", "context": CONTEXT}
    assert read(both) == read(both, max_seq_len=40, doc_stride=12, max_answer_len=2)  # what the configuration stores
    assert read(both, doc_stride=0, max_answer_len=9) != read(both)


def test_no_answer_stands_at_the_class_token_or_the_first() -> None:
    window = Window({"input_ids": [5, 6, 7]}, [None, (0, 3), (3, 5)], none=0)
    assert window.positions_of(3, 5) == (2, 2) and window.positions_of(1, 4) == (1, 2)
    assert window.positions_of(3, 6) == (0, 0)
