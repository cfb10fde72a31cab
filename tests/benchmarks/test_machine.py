from pathlib import Path

import pytest
import torch
import transformers

from vaswani_transformer.benchmarks.machine import instructions, machine, software


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor : 0\nflags\t\t: fpu avx2 avx512_bf16 sse\nbugs : amx_tile\n", ["avx2", "avx512_bf16"]),
        ("Features\t: fp asimddp i8mm\n", ["asimddp", "i8mm"]),
        ("processor : 0\n", []),
    ],
)
def test_the_instruction_sets_that_matter(text: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert instructions(tmp_path / "cpuinfo") == expected
    assert instructions(tmp_path / "absent") == []


def test_machine_and_software() -> None:
    facts = machine(torch.device("cpu"))
    assert facts["cpu"] and facts["cores"] >= 1 and facts["threads"] == torch.get_num_threads()
    assert "gpu" not in facts
    versions = software(["sacrebleu", "no-such-package"])
    assert versions["transformers"] == transformers.__version__
    assert "sacrebleu" in versions and "no-such-package" not in versions
