"""Doing something right after a module was imported, whoever imports it and when."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Imported = Callable[[ModuleType], None]


def after_import(names: Sequence[str], imported: Imported) -> None:
    """Call `imported` with each named module, at once for those that are there already."""
    for name in names:
        module = sys.modules.get(name)
        if module is not None:
            imported(module)
    sys.meta_path.insert(0, _Finder(frozenset(names), imported))


class _Finder(MetaPathFinder):
    """Finds the named modules as everybody else does, and wraps their loaders."""

    def __init__(self, names: frozenset[str], imported: Imported) -> None:
        self._names = names
        self._imported = imported
        self._asking: set[str] = set()  # another hook of this kind may ask this one again while it is asked

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._names or fullname in self._asking:
            return None
        self._asking.add(fullname)
        try:
            spec = self._find(fullname, path, target)
        finally:
            self._asking.discard(fullname)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self._imported)
        return spec

    def _find(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            if finder is self or find_spec is None:
                continue
            spec: ModuleSpec | None = find_spec(fullname, path, target)
            if spec is not None:
                return spec
        return None


class _Loader(Loader):
    """A module's own loader; afterwards the module knows only that one."""

    def __init__(self, loader: Any, imported: Imported) -> None:
        self._loader = loader
        self._imported = imported

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._imported(module)
