"""What a repository is expected to have: licence, citation, changelog, workflow. They agree with each other and with the package."""

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from vaswani_transformer import __version__

ROOT = Path(__file__).parents[1]
APACHE = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""SHA-256 of the licence as the Apache Software Foundation prints it, its appendix not filled in."""


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def citation() -> dict[str, Any]:
    loaded = yaml.safe_load(text("CITATION.cff"))
    assert isinstance(loaded, dict)
    return loaded


def released() -> list[str]:
    """Versions in the changelog, the newest first."""
    return re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (?:Unreleased|\d{4}-\d\d-\d\d)$", text("CHANGELOG.md"), flags=re.MULTILINE)


def test_the_licence_is_apache_2() -> None:
    original = text("LICENSE").replace("2026 the vaswani_transformer contributors", "[yyyy] [name of copyright owner]")
    assert hashlib.sha256(original.encode()).hexdigest() == APACHE
    assert tomllib.loads(text("pyproject.toml"))["project"]["license"] == citation()["license"] == "Apache-2.0"


def test_citation_and_changelog_have_the_version_of_the_package() -> None:
    assert citation()["version"] == released()[0] == __version__


def test_versions_go_down_in_the_changelog() -> None:
    numbers = [tuple(map(int, version.split("."))) for version in released()]
    assert numbers == sorted(numbers, reverse=True) and len(set(numbers)) == len(numbers)


def test_the_workflow_runs_what_a_contributor_runs() -> None:
    steps = yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    assert (ROOT / ".ci/run").stat().st_mode & 0o111
