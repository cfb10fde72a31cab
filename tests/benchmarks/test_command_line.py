"""How a benchmark reads its command line, and how it ends."""

import argparse
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from benchmarks.command_line import run


def test_help_names_the_command_as_it_is_given(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module = ModuleType("__main__")
    module.__spec__ = ModuleSpec("benchmarks.layers.__main__", None)
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.setattr(sys, "argv", ["/there/benchmarks/layers/__main__.py", "--help"])
    with pytest.raises(SystemExit) as end:
        run(lambda arguments: None, lambda: argparse.ArgumentParser().parse_args())
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("usage: python -m benchmarks.layers [-h]")
    assert sys.argv[0] == "/there/benchmarks/layers/__main__.py"


def test_bad_input_ends_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def main(arguments: argparse.Namespace) -> None:
        raise ValueError("There is nothing to measure.")

    monkeypatch.setattr(sys, "argv", ["x"])
    with pytest.raises(SystemExit) as end:
        run(main, lambda: argparse.ArgumentParser().parse_args())
    assert end.value.code == "error: There is nothing to measure."
