"""How is a name there without all that it needs being imported?

A package that shows its names through a `Face` imports each of them when it is first used: `fogline --help` needs no
compiler, and `fogline.Query` no Spark. Type checkers see the names by imports of their own (`if TYPE_CHECKING`).

A name may also be that of a room: `fogline.skyline` is the function, and `fogline.engine.live` a module of the room.
Importing the room would put it in the function's place; a face keeps the name for what it shows.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


class Face(ModuleType):
    """A package whose names lie in modules that are imported when they are asked for."""

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
        return sorted({*vars(self), *self.where})


def offer(package: str, names: Mapping[str, tuple[str, ...]]) -> None:
    """Let a package show names of its modules; a module itself, too, as {"spark": ("spark",)}."""
    module = sys.modules[package]
    vars(module)["where"] = {name: f"{package}.{each}" for each, shown in names.items() for name in shown}
    module.__class__ = Face
