"""A fresh machine: run a Space's `app.py` where only the packages of its `requirements.txt` can be imported.

`space_check.check_space` runs this file as a program. Its arguments are the Space's folder and the names of the distributions that are
pinned there. It must import nothing of the package, which the Space brings along.
"""

import os
import runpy
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import packages_distributions
from types import ModuleType
from typing import Any


class OnlyThePinned(MetaPathFinder):
    """Finds with another finder, but nothing that a machine with nothing but the pinned distributions would not have."""

    def __init__(self, finder: Any, hidden: set[str]) -> None:
        """`hidden` are names of top-level modules."""
        self._finder, self._hidden = finder, hidden

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """None for what is hidden, as if it were not installed."""
        if name.partition(".")[0] in self._hidden or not hasattr(self._finder, "find_spec"):
            return None
        found: ModuleSpec | None = self._finder.find_spec(name, path, target)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def hidden_modules(pinned: Sequence[str]) -> set[str]:
    """Top-level modules that are installed here, but by none of the distributions `pinned`."""
    names = {_plain(name) for name in [*pinned, "vaswani_transformer"]}
    return {module for module, found in packages_distributions().items() if not names & {_plain(name) for name in found}}


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


if __name__ == "__main__":
    folder, *distributions = sys.argv[1:]
    hidden = hidden_modules(distributions)
    sys.meta_path[:] = [OnlyThePinned(finder, hidden) for finder in sys.meta_path]
    sys.path.insert(0, folder)  # as for a program that lies there: the Space's own copy of the package goes before an installed one
    os.chdir(folder)
    sys.argv = ["app.py"]
    runpy.run_path("app.py", run_name="__main__")
