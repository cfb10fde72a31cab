"""Questions with marked answers from every form in which they come, and what does not fit."""

import gzip
import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from vaswani_transformer.data.sources import parse_corpus
from vaswani_transformer.data.sources.corpus import SentencePair
from vaswani_transformer.data.sources.marked import MarkedQuestion, marked_pair, read_marked
from vaswani_transformer.tasks import ANSWERED, MARKED

CONTEXT = "Das naïve Café liegt in Zürich, in Zürich! "
ASKED: list[dict[str, Any]] = [
    {"question": "Wo?", "answers": [{"text": "Zürich", "answer_start": 24}, {"text": " Zürich", "answer_start": 34}]},
    {"question": "Wann?", "answers": [], "is_impossible": True},
]
QUESTIONS = [MarkedQuestion("Wo?", CONTEXT, [(24, 30), (35, 41)]), MarkedQuestion("Wann?", CONTEXT, [])]
BABI = Path(__file__).parents[4] / "shared" / "data" / "tasks" / "question_answering"


def read(folder: Path, languages: tuple[str, str] = MARKED, **corpus: Any) -> list[SentencePair]:
    return list(parse_corpus(corpus).pairs(folder, languages))


def test_every_form_gives_the_same_questions(tmp_path: Path) -> None:
    tree = {"version": "2", "data": [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": ASKED}]}]}
    with gzip.open(tmp_path / "dev.json.gz", "wt", encoding="utf-8") as file:
        json.dump(tree, file)
    rows = [{"question": each["question"], "context": CONTEXT, "answers": each["answers"]} for each in ASKED]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    as_hub = [{**row, "answers": {name: [each[name] for each in row["answers"]] for name in ("text", "answer_start")}} for row in rows]
    hub = datasets.Dataset.from_list(as_hub, features=datasets.Features({
        "question": datasets.Value("string"), "context": datasets.Value("string"),
        "answers": {"text": datasets.List(datasets.Value("string")), "answer_start": datasets.List(datasets.Value("int32"))},
    }))  # fmt: skip
    hub.save_to_disk(str(tmp_path / "saved"))
    hub.to_parquet(str(tmp_path / "rows.parquet"))
    for corpus in (
        {"format": "squad", "path": "dev.json.gz"},
        {"format": "table", "path": "rows.jsonl"},
        {"format": "table", "path": "rows.parquet"},
        {"format": "disk", "path": "saved"},
    ):
        pairs = read(tmp_path, **corpus)
        assert [read_marked(pair) for pair in pairs] == QUESTIONS, corpus
        assert [pair.line for pair in pairs] == [1, 2]
    assert QUESTIONS[0].answers == ["Zürich", "Zürich"]


def test_the_answer_of_a_story_stands_in_the_sentence_that_it_rests_on(tmp_path: Path) -> None:
    story = [
        "1 Mary is in the hall.",
        "2 John is in the hall.",
        "3 Where is Mary? \thall\t1",
        "4 Ann left.",
        "5 Where is John? \thall\t1 2",
    ]
    (tmp_path / "qa.txt").write_text("\n".join(story), encoding="utf-8")
    first, second = (read_marked(pair) for pair in read(tmp_path, format="babi", path="qa.txt"))
    assert first == MarkedQuestion("Where is Mary?", "Mary is in the hall. John is in the hall.", [(15, 19)])
    assert second.spans == [(36, 40)] and second.answers == ["hall"] and second.context.endswith("hall. Ann left.")
    assert read(tmp_path, ANSWERED, format="babi", path="qa.txt")[0][:2] == (f"{first.context} Where is Mary?", "hall")
    (tmp_path / "qa.txt").write_text("1 Mary is here.\n2 Is Mary here?\tyes\t1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"qa.txt:2 has the answer 'yes', which is no word of the sentences that it rests on"):
        read(tmp_path, format="babi", path="qa.txt")


def test_all_of_babis_first_tasks_and_of_xquad_can_be_marked() -> None:
    if not BABI.is_dir():
        pytest.skip("the corpora are not here")
    for name in ("qa1_single-supporting-fact", "qa2_two-supporting-facts"):
        pairs = read(BABI / "babi" / "en", format="babi", path=f"{name}_test.txt.gz")
        written = read(BABI / "babi" / "en", ANSWERED, format="babi", path=f"{name}_test.txt.gz")
        assert [read_marked(pair).answers for pair in pairs] == [[pair.target] for pair in written] and len(pairs) == 1000
    for code in ("en", "de"):
        assert len(read(BABI / "xquad", format="squad", path=f"xquad.{code}.json.gz")) == 1190


@pytest.mark.parametrize(
    ("question", "context", "answers", "sentence"),
    [
        ("Wo?", CONTEXT, [("Zürich", 25)], "f:7 has the answer 'Zürich' at character 25 of its context, where 'ürich,' stands; repair"),
        ("Wo?", CONTEXT, [("Zürich", 99)], "at character 99 of its context, where '' stands"),
        ("Wo?", CONTEXT, [("!", -2)], "at character -2"),
        ("Wo?", CONTEXT, [("Zürich", None)], "f:7 has an answer 'Zürich' at None"),
        ("Wo?", CONTEXT, [(" ", 3)], "f:7 has a blank answer"),
        (" ", CONTEXT, [], "f:7 has no question, or a blank one"),
        ("Wo?", None, [], "f:7 has no context, or a blank one"),
        ("Wo\ud83d?", CONTEXT, [], "f:7 has a question that holds half a surrogate pair at character 3"),
    ],
)
def test_what_does_not_fit_is_named(question: Any, context: Any, answers: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as error:
        marked_pair(question, context, answers, "f", 7)
    assert "\n" not in str(error.value)


def test_files_of_another_form_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"data": [{"context": "x"}]}', encoding="utf-8")
    (tmp_path / "b.json").write_text('{"data": [', encoding="utf-8")
    (tmp_path / "c.jsonl").write_text('{"question": "Wo?", "context": "da", "answers": ["da"]}\n', encoding="utf-8")
    (tmp_path / "d.jsonl").write_text('{"question": "Wo?", "text": "da", "answers": []}\n', encoding="utf-8")
    for corpus, sentence in (
        ({"format": "squad", "path": "a.json"}, "a.json is not in SQuAD's form"),
        ({"format": "squad", "path": "b.json"}, "b.json is not valid JSON"),
        ({"format": "table", "path": "c.jsonl"}, r"c.jsonl:1 has the answers \['da'\]; each must have a `text` and an `answer_start`"),
        ({"format": "table", "path": "d.jsonl"}, "d.jsonl:1 has no column `context`; available are `question`, `text`, `answers`"),
    ):
        with pytest.raises(ValueError, match=sentence):
            read(tmp_path, **corpus)
    with pytest.raises(ValueError, match="is for `task: question_answering` with"):
        read(tmp_path, ANSWERED, format="squad", path="a.json")
    with pytest.raises(ValueError, match=r"f:3 has no place for its answer, which `answers.kind: span` needs"):
        read_marked(SentencePair("a text", "an answer", "f", 3))
