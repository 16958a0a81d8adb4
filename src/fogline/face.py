"""Names of a package that are imported when they are first used.

So `fogline --help` needs no compiler, and `fogline.Query` no Spark. Type checkers see the names by imports of their own
(`if TYPE_CHECKING`).

A name may be that of a module, too: `fogline.show` is a function, and lies in the module `show`. Python sets a module
that is imported as an attribute of its package; a `Face` keeps the name for what it shows.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


class Face(ModuleType):
    """A package of which each name is imported from its module when it is asked for."""

    where: Mapping[str, str]

    def __getattr__(self, name: str) -> Any:
        module = vars(self).get("where", {}).get(name)
        if module is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = import_module(module)
        shown = found if module == f"{self.__name__}.{name}" and not hasattr(found, name) else getattr(found, name)
        vars(self)[name] = shown
        return shown

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.where or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        """What is public; modules that were imported are none of it."""
        return sorted({*vars(self)["__all__"], *(name for name in vars(self) if name.startswith("__"))})


def offer(package: str, names: Mapping[str, tuple[str, ...]], *, root: str | None = None) -> None:
    """Let a package show names of its modules, or of those of `root`; {"spark": ("spark",)} shows a module itself."""
    module = sys.modules[package]
    within = package if root is None else root
    vars(module)["where"] = {name: f"{within}.{each}" for each, shown in names.items() for name in shown}
    module.__class__ = Face
