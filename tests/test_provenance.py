import pytest

from vaswani_transformer import __version__, provenance
from vaswani_transformer.provenance import versions


def test_the_package_tells_its_own_version_and_not_that_of_an_old_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "version", lambda package: "0.0.1")
    assert versions("vaswani_transformer")["vaswani_transformer"] == __version__


def test_a_package_that_is_not_installed_is_a_checkout() -> None:
    assert versions("no_such_package")["no_such_package"] == "checkout"
