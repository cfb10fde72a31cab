"""Formats with labels: a label before each text, columns of words, and tables with a column of labels."""

import gzip
import json
from pathlib import Path

import pytest

from vaswani_transformer.data.sources.babi import BabiCorpus
from vaswani_transformer.data.sources.conll import ConllCorpus
from vaswani_transformer.data.sources.corpus import Corpus, SentencePair
from vaswani_transformer.data.sources.labelled_lines import LabelledLinesCorpus
from vaswani_transformer.data.sources.lines import LinesCorpus
from vaswani_transformer.data.sources.table import TableCorpus
from vaswani_transformer.tasks import ANSWERED, LABELLED, SUMMARIZED, TAGGED

CONLLU = """# text = "#" it isn't so
1\t#\t#\tSYM\t_
2-3\tisn't\t_\t_\t_
2\tis\tbe\tAUX\t_
3\tn't\tnot\tPART\t_
3.1\tthere\tthere\tADV\t_

# newdoc
1\tGo\tgo\tVERB\t_
"""


def read(corpus: Corpus, root: Path, columns: tuple[str, str] = TAGGED) -> list[SentencePair]:
    return list(corpus.pairs(root, columns))


def test_a_label_before_each_text(tmp_path: Path) -> None:
    (tmp_path / "t.gz").write_bytes(gzip.compress("1 good , good\n\n0\tbad \u2028 here\n2\n".encode()))
    assert read(LabelledLinesCorpus(path="t.gz"), tmp_path, LABELLED) == [
        ("good , good", "1", "t.gz", 1, None),
        ("bad \u2028 here", "0", "t.gz", 3, None),
        ("", "2", "t.gz", 4, None),  # no text, which cleaning counts
    ]


def test_conllu_has_comments_ranges_and_empty_nodes(tmp_path: Path) -> None:
    (tmp_path / "t.conllu").write_text(CONLLU, encoding="utf-8")
    assert read(ConllCorpus(path="t.conllu"), tmp_path) == [
        ("#\tis\tn't", "SYM\tAUX\tPART", "t.conllu", 2, None),
        ("Go", "VERB", "t.conllu", 9, None),
    ]
    assert read(ConllCorpus(path="t.conllu", tag_column=3), tmp_path)[0].target == "#\tbe\tnot"


@pytest.mark.parametrize("between", ["\t", " "])
def test_the_columns_of_the_shared_tasks(tmp_path: Path, between: str) -> None:
    rows = ["-DOCSTART- -X- O", "", "# NN O", "Rome NNP B-LOC", " ", "", "Go VB O"]
    (tmp_path / "t.txt").write_text("\n".join(rows).replace(" ", between), encoding="utf-8")
    assert [pair[:2] for pair in read(ConllCorpus(path="t.txt"), tmp_path)] == [("#\tRome", "O\tB-LOC"), ("Go", "O")]


@pytest.mark.parametrize(("row", "message"), [("Rome", "t.txt:2 has 1 columns"), ("Rome\t", "t.txt:2 has no label"), ("\tO", "no word")])
def test_a_word_without_a_label_is_named(tmp_path: Path, row: str, message: str) -> None:
    (tmp_path / "t.txt").write_text(f"in\tO\n{row}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read(ConllCorpus(path="t.txt"), tmp_path)


def test_tables_may_hold_numbers_and_lists(tmp_path: Path) -> None:
    rows = [{"text": "good", "label": 1, "tokens": ["a", "b c"], "tags": [0, "X"]}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    table = TableCorpus(path="t.jsonl")
    assert read(table, tmp_path, LABELLED)[0][:2] == ("good", "1")
    assert read(table, tmp_path)[0][:2] == ("a\tb c", "0\tX")
    with pytest.raises(ValueError, match="must hold text, not 1"):
        read(TableCorpus(path="t.jsonl", source_column="text", target_column="label"), tmp_path, ("en", "de"))


def test_white_space_parts_the_words_and_labels_of_plain_text(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("tokens\ttags\nI live in  Rome\tO O O B-LOC\n", encoding="utf-8")
    (tmp_path / "words").write_text("I live in  Rome\n", encoding="utf-8")
    (tmp_path / "labels").write_text("O O O B-LOC\n", encoding="utf-8")
    for corpus in (TableCorpus(path="t.tsv"), LinesCorpus(source="words", target="labels")):
        assert [pair[:2] for pair in read(corpus, tmp_path)] == [("I\tlive\tin\tRome", "O\tO\tO\tB-LOC")]


def test_what_is_no_word_in_a_list_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(json.dumps({"tokens": ["a", None], "tags": ["O", "O"]}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"t\.jsonl:1: column `tokens` holds a list with None, which is no word and no label; repair"):
        read(TableCorpus(path="t.jsonl"), tmp_path)


STORIES = """1 Mary went to the hall.
2 Where is Mary? \thall\t1
3 Sue took milk, apple.
4 What has Sue?\tmilk,apple\t3
1 John slept.
2 Who slept?\tJohn\t1
"""


def test_a_question_of_babi_has_the_story_so_far(tmp_path: Path) -> None:
    (tmp_path / "qa.txt").write_text(STORIES, encoding="utf-8")
    assert [pair[:2] for pair in read(BabiCorpus(path="qa.txt"), tmp_path, ANSWERED)] == [
        ("Mary went to the hall. Where is Mary?", "hall"),
        ("Mary went to the hall. Sue took milk, apple. What has Sue?", "milk,apple"),
        ("John slept. Who slept?", "John"),
    ]
    (tmp_path / "bad.txt").write_text("1 Who?\t\t1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"bad.txt:1 has a question without an answer"):
        read(BabiCorpus(path="bad.txt"), tmp_path, ANSWERED)


def test_sentences_of_a_text_are_joined_and_references_are_kept(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(json.dumps({"text": ["One.", "Two."], "summary": ["a", "b"]}), encoding="utf-8")
    assert read(TableCorpus(path="t.jsonl"), tmp_path, SUMMARIZED)[0][:2] == ("One. Two.", "a\x1eb")


@pytest.mark.parametrize("corpus", [ConllCorpus(path="t"), LabelledLinesCorpus(path="t"), BabiCorpus(path="t")])
def test_a_format_of_another_task_is_refused(tmp_path: Path, corpus: Corpus) -> None:
    with pytest.raises(ValueError, match=f"`format: {corpus.format}` is for"):
        read(corpus, tmp_path, ("en", "de"))
