"""The documents' way from a team's own sentences to a published translator, command by command as it stands there."""

import contextlib
import shlex
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

from tests.documents import commands, only_block, section, text_of
from vaswani_transformer.__main__ import app
from vaswani_transformer.data.builtin.corpus import builtin_pairs

SECTION = section("docs/training.md", "One file decides everything")
SMALL = {
    "tokenizer.vocab_size": 400,
    "model.d_model": 32,
    "training.updates": 4,
    "training.validate_every": 2,
    "training.checkpoint_every": 2,
    "training.average_checkpoints": 2,
    "validation.sentences": 4,
}
SMALL_SECOND_RUN = {key: value for key, value in SMALL.items() if not key.startswith(("tokenizer.", "model."))} | {
    "training.warmup_updates": 2,
    "data.distillation.num_beams": 1,
    "data.distillation.best": 1,
    "data.distillation.closest": "false",
}


def write_sentences(folder: Path) -> None:
    pairs = list(builtin_pairs("train", 600))
    for name, chosen in (("train", pairs[:580]), ("dev", pairs[580:590]), ("test", pairs[590:])):
        for suffix, side in (("en", 0), ("sv", 1)):
            lines = "".join(f"{pair[side]}\n" for pair in chosen)
            (folder / f"{name}.{suffix}").write_text(lines, encoding="utf-8")


def test_the_commands_lead_from_files_to_a_published_folder(tmp_path: Path, run_python: Callable[..., None]) -> None:
    write_sentences(tmp_path)
    (tmp_path / "my_pair.yaml").write_text(only_block(SECTION, "yaml"), encoding="utf-8")
    stages = [shlex.split(line) for line in only_block(SECTION, "bash").splitlines()]
    assert [words[1] for words in stages] == ["train", "evaluate", "card", "publish"]
    stages[0] += [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    for program, *arguments in stages:
        assert program == "vaswani"
        run_python(tmp_path, "-m", "vaswani_transformer", *arguments)
    published = tmp_path / "runs/my_pair/published"
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= {path.name for path in published.iterdir()}
    assert "my_test" in (published / "README.md").read_text(encoding="utf-8")


def test_the_same_training_from_python(tmp_path: Path, run_python: Callable[..., None]) -> None:
    write_sentences(tmp_path)
    (tmp_path / "my_pair.yaml").write_text(only_block(SECTION, "yaml"), encoding="utf-8")
    program = only_block(section("docs/training.md", "From Python"), "python")
    assert program.count('["training.updates=2000"]') == 1
    run_python(tmp_path, "-c", program.replace('["training.updates=2000"]', str([f"{key}={value}" for key, value in SMALL.items()])))
    assert (tmp_path / "runs/my_pair/averaged/model.safetensors").is_file()


def test_the_tutorial_leads_from_two_files_to_a_published_folder(tmp_path: Path, run_python: Callable[..., None]) -> None:
    """Command by command. What trains has a process of its own, and what needs the Hub is left out."""
    write_sentences(tmp_path)
    (tmp_path / "in.txt").write_text("The small dog sleeps.\n", encoding="utf-8")
    written = commands(text_of("docs/tutorial.md"))
    ours = [arguments for program, *arguments in written if program == "vaswani" and "--repo-id" not in arguments]
    verbs = [arguments[0] for arguments in ours]
    assert verbs == ["new", "check", "train", "report", "train", "evaluate", "translate", "card", "publish"]
    with contextlib.chdir(tmp_path):
        for arguments in ours:
            if arguments[0] in ("check", "train"):
                small = SMALL if arguments[1] == "my_pair.yaml" else SMALL_SECOND_RUN
                settings = [word for key, value in small.items() for word in ("--set", f"{key}={value}")]
                run_python(tmp_path, "-m", "vaswani_transformer", *arguments, *settings)
                continue
            done = CliRunner().invoke(app, arguments)
            assert done.exit_code == 0, f"vaswani {shlex.join(arguments)}: {done.output[-3000:]}"
    assert (tmp_path / "out.txt").read_bytes().count(b"\n") == 1
    assert (tmp_path / "runs/my_pair/published/model.safetensors").is_file()
    assert (tmp_path / "runs/my_pair_distilled/averaged/model.safetensors").is_file()


def test_the_readme_begins_as_the_tutorial_does() -> None:
    readme, tutorial = (commands(text) for text in (section("README.md", "Train on your own sentences"), text_of("docs/tutorial.md")))
    assert [words for words in tutorial if words in readme] == readme
