"""Registers the package with transformers as soon as transformers is there, and not before: importing it takes seconds."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class Registrar(MetaPathFinder):
    """Finds no module itself; it sees when transformers and the modules of this package are imported.

    The registration needs whole modules. It may not come in the middle of one of ours that imports transformers, so it comes as soon as
    transformers is loaded and nothing of ours is half loaded. Then this object leaves `sys.meta_path`.
    """

    def __init__(self) -> None:
        self.half_loaded: list[str] = []

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """What the other finders give, with a loader that tells this object about the module it loads."""
        if fullname != "transformers" and not fullname.startswith(f"{__package__}."):
            return None
        others = (finder.find_spec(fullname, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((spec for spec in others if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = partial(self._load, spec.loader.exec_module)  # type: ignore[method-assign]
        return spec

    def _load(self, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        name = module.__name__
        self.half_loaded.append(name)
        try:
            execute(module)
        finally:
            self.half_loaded.remove(name)
        if not self.half_loaded and "transformers" in sys.modules and self in sys.meta_path:
            sys.meta_path.remove(self)
            _register()


def register_with_transformers() -> None:
    """Register now if transformers is loaded, and otherwise when it is."""
    if "transformers" in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, Registrar())


def _register() -> None:
    import_module(f"{__package__}.registration")
