"""What is asked of Optimum and of pip, both played by a small program; the real ones need the network."""

from collections.abc import Callable
from pathlib import Path

import pytest

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.interop import onnx
from vaswani_transformer.interop.onnx import REQUIREMENTS, export_onnx, provide_environment

Saved = Callable[..., tuple[Path, VaswaniForConditionalGeneration]]


def test_optimum_gets_the_marian_export(saved: Saved, fake_python: Callable[..., Path], tmp_path: Path) -> None:
    folder, _ = saved()
    said: list[str] = []
    out = export_onnx(folder, tmp_path / "out", python=fake_python(), say=said.append)
    assert '"model_type": "marian"' in (out / "encoder_model.onnx").read_text()
    assert (tmp_path / "told").read_text().startswith("-m optimum.exporters.onnx --model ")
    assert " --task text2text-generation-with-past " in (tmp_path / "told").read_text()
    assert said == [f"Exporting {folder} to ONNX"]


def test_a_failure_of_optimum_is_a_sentence(saved: Saved, fake_python: Callable[..., Path], tmp_path: Path) -> None:
    folder, _ = saved()
    failing = fake_python(optimum='echo half > "$7/model"; echo "RuntimeError: no such operator" >&2; echo bye >&2; exit 3')
    sentence = r"could not export .* to ONNX \(exit status 3: RuntimeError: no such operator\); nothing was written\.$"
    with pytest.raises(ValueError, match=sentence):
        export_onnx(folder, tmp_path / "out", python=failing)
    with pytest.raises(FileNotFoundError, match=r"There is no program .*nowhere; give the python of an environment"):
        export_onnx(folder, tmp_path / "out", python=tmp_path / "nowhere")
    assert not (tmp_path / "out").exists()


def test_an_environment_is_made_once_and_again_for_other_versions(
    fake_python: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx.sys, "executable", str(fake_python()))
    place, said = tmp_path / "environments" / "onnx", []
    for _ in range(2):
        assert provide_environment(place, said.append) == place / "bin" / "python"
    told = (tmp_path / "told").read_text().splitlines()
    assert told == [f"-m venv --clear {place}", f"-m pip install --quiet {' '.join(REQUIREMENTS)}"]
    assert len(said) == 1 and str(place) in said[0]
    monkeypatch.setattr(onnx, "REQUIREMENTS", ("torch==99",))
    provide_environment(place, said.append)
    assert len(said) == 2 and (tmp_path / "told").read_text().splitlines()[-1].endswith("torch==99")


def test_what_pip_cannot_install_is_a_sentence_and_is_tried_again(
    fake_python: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = fake_python(pip='echo "ERROR: No matching distribution found for torch" >&2; exit 1')
    monkeypatch.setattr(onnx.sys, "executable", str(failing))
    for _ in range(2):
        sentence = r"onnx could not be made \(exit status 1: ERROR: No matching distribution found for torch\); see to the network"
        with pytest.raises(OSError, match=sentence):
            provide_environment(tmp_path / "onnx", lambda _: None)
    monkeypatch.setattr(onnx.sys, "executable", str(fake_python()))
    assert provide_environment(tmp_path / "onnx", lambda _: None).is_file()


def test_two_do_not_make_it_at_once(fake_python: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx.sys, "executable", str(fake_python()))

    def say(_: str) -> None:
        with pytest.raises(BlockingIOError, match="Another process is making the environment"):
            provide_environment(tmp_path / "onnx", lambda _: None)

    provide_environment(tmp_path / "onnx", say)
