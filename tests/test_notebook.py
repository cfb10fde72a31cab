"""The notebook, run from the first cell to the last with a training of seconds."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "notebooks" / "own_sentences.ipynb"
SHORT = "pairs, vocabulary, updates = 600, 400, 20"


def test_the_notebook_goes_from_sentences_to_a_published_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (parameters,) = (cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
    parameters.source = SHORT
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    published = tmp_path / "runs/my_pair/published"
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= {path.name for path in published.iterdir()}
    (translated,) = (output for output in notebook.cells[-1].outputs if output.output_type == "execute_result")
    assert translated.data["text/plain"].count("translation_text") == 2


def test_the_notebook_is_stored_without_results() -> None:
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in nbformat.read(NOTEBOOK, as_version=4).cells)
