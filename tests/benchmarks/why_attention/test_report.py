"""What is claimed, what is absent, and the files of the command."""

import sys
from pathlib import Path

import pytest

from benchmarks.variations.rows import variations
from benchmarks.why_attention.__main__ import main, parse
from benchmarks.why_attention.claims import CLAIMS, SECTIONS, SOURCES, Claim
from benchmarks.why_attention.report import found_results, judged, table
from benchmarks.why_attention.verdicts import Finding
from tests.documents import ROOT, commands, text_of
from vaswani_transformer.files.json_files import read_json, write_json
from vaswani_transformer.recipe import load_recipe
from vaswani_transformer.shipped_recipes import find_recipe

MEASURED = ROOT / "docs" / "measured"
WORDS_OF_A_SHORT_QUOTE = 16


def test_every_claim_has_a_short_quote_and_its_section() -> None:
    assert {claim.section for claim in CLAIMS} == set(SECTIONS)
    assert [claim.section for claim in CLAIMS] == sorted((claim.section for claim in CLAIMS), key=list(SECTIONS).index)
    for claim in CLAIMS:
        assert claim.quote and len(claim.quote.split()) <= WORDS_OF_A_SHORT_QUOTE and claim.reading
        assert "|" not in claim.quote + claim.reading  # it would end a cell
        assert claim.source is None or claim.source in SOURCES
    assert len({(claim.quote, claim.reading) for claim in CLAIMS}) == len(CLAIMS)
    assert {claim.source for claim in CLAIMS} >= set(SOURCES)


def test_the_page_names_every_command() -> None:
    """`tests/test_documents.py` runs what the page names."""
    on_the_page = [" ".join(words) for words in commands(text_of("docs/why_attention.md"))]
    for source in SOURCES.values():
        program = source.command.split(" --")[0]
        assert any(command.startswith(program) for command in on_the_page), f"docs/why_attention.md lacks {program}"


def test_absent_results_are_not_measured(tmp_path: Path) -> None:
    results = judged(CLAIMS, found_results([tmp_path]))
    assert {claim["verdict"] for claim in results["claims"]} == {"not measured"}
    text = table(results)
    assert f"Verdicts on {len(CLAIMS)} claims: agrees 0, in part 0, disagrees 0, undecided 0, not measured {len(CLAIMS)}." in text
    row = '| "hurts perplexity" | row D: without label smoothing, the perplexity is better |'
    assert f"{row} run `python -m benchmarks.variations multi30k_en_de` | not measured |" in text
    assert "| the caption of Table 4: scores of a parser | nothing here does | not measured |" in text
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        found_results([tmp_path / "absent"])


def test_table_3_has_every_row_that_a_claim_speaks_of() -> None:
    """A misspelt row would never be measured."""
    names = [row.name for row in variations(load_recipe(find_recipe("multi30k_en_de")))]
    runs = [{"bleu": 30.0, "nll": 1.0}, {"bleu": 30.2, "nll": 1.1}]
    rows = {"rows": [{"name": name, "title": name, "runs": runs} for name in names]}
    own = [claim for claim in CLAIMS if claim.source == "variations"]
    found = {claim["quote"]: claim for claim in judged(own, {"variations": ("table_3/results.json", rows)})["claims"]}
    assert found["bigger models are better"]["figure"].count(" beside ") == 7
    assert found["reducing the attention key size d_k hurts model quality"]["figure"].count(" beside ") == 2
    assert {claim["verdict"] for claim in found.values()} == {"undecided", "agrees"}  # no difference: what is claimed to be the same agrees


def test_the_first_folder_counts_and_damaged_results_are_refused(tmp_path: Path) -> None:
    for folder, number in (("mine", 1), ("theirs", 2)):
        write_json(tmp_path / folder / "table_2" / "results.json", {"number": number})
    write_json(tmp_path / "theirs" / "layers" / "results.json", {"number": 3})
    found = found_results([tmp_path / "mine", tmp_path / "theirs"])
    assert found == {"table_2": ("table_2/results.json", {"number": 1}), "layers": ("layers/results.json", {"number": 3})}
    claim = Claim("1", "a quote", "a reading", "table_2", lambda results: Finding(f"{results['number']}", "agrees"))
    (own,) = judged([claim], found)["claims"]
    assert (own["figure"], own["verdict"], own["command"]) == ("1", "agrees", "python -m benchmarks.table_2")
    with pytest.raises(ValueError, match=r"table_2/results.json is not what python -m benchmarks.table_2 writes: KeyError"):
        judged(CLAIMS, found)


def test_the_page_shows_what_the_results_say_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["why_attention", "--results", str(MEASURED), "--output", str(tmp_path)])
    main(parse())
    assert "results.json and table.md are in" in capsys.readouterr().out
    remedy = "run: python -m benchmarks.why_attention --output docs/measured/why_attention"
    assert read_json(tmp_path / "results.json") == read_json(MEASURED / "why_attention" / "results.json"), remedy
    assert (tmp_path / "table.md").read_text(encoding="utf-8") == (MEASURED / "why_attention" / "table.md").read_text(encoding="utf-8")
