"""Does today's code answer what was recorded?

Rows, their order and everything about them are equal; floats to the bit, or within a tolerance that is asked for.
Counters are compared apart: they show how the work was done, and may change where a step declares it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.net.driving import Record

SOFT = ("counts",)
LIKE = {"restored": "monitor"}  # an engine that is held to what another one gave


@dataclass(frozen=True)
class Difference:
    """What differs first in a section of what an engine reported."""

    stream: str
    engine: str
    section: str
    where: str
    kept: Any
    found: Any
    soft: bool = False

    def __str__(self) -> str:
        spark = " --spark" if self.engine.startswith("spark") else ""
        return (
            f"{self.stream}, engine {self.engine!r}, {self.section}{self.where}\n"
            f"    kept:  {_short(self.kept)}\n    found: {_short(self.found)}\n"
            f'    again: python -m tests.net --only "{self.stream}" --engine "{self.engine}"{spark}'
        )


def differences(stream: str, engine: str, kept: Record, found: Record, tolerance: float = 0.0) -> Iterator[Difference]:
    """The first difference of each section."""
    names = dict.fromkeys((*kept, *found))
    for name in names:
        if engine in LIKE and (name not in found or name not in kept):
            continue
        first = next(_unlike(kept.get(name), found.get(name), "", tolerance), None)
        if first is not None:
            yield Difference(stream, engine, name, *first, soft=name in SOFT)


def _unlike(a: Any, b: Any, where: str, tolerance: float) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        if "columns" in a and "columns" in b:
            yield from _unlike_rows(a, b, where, tolerance)
            return
        for name in dict.fromkeys((*a, *b)):
            yield from _unlike(a.get(name), b.get(name), f"{where} {name}", tolerance)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _unlike(x, y, f"{where}[{k}]", tolerance)
    elif not _same(a, b, tolerance):
        yield where, a, b


def _unlike_rows(a: Record, b: Record, where: str, tolerance: float) -> Iterator[tuple[str, Any, Any]]:
    """The first row that differs, with the names of its columns."""
    if a["columns"] != b["columns"]:
        yield f"{where} columns", a["columns"], b["columns"]
        return
    for k in range(max(len(a["rows"]), len(b["rows"]))):
        x, y = (each["rows"][k] if k < len(each["rows"]) else None for each in (a, b))
        if x is None or y is None or next(_unlike(x, y, "", tolerance), None) is not None:
            names = a["columns"]
            kept, found = (None if row is None else dict(zip(names, row, strict=True)) for row in (x, y))
            yield f"{where} row {k}", kept, found
            return


def _same(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return a is b
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isfinite(a) and math.isfinite(b) and abs(a - b) <= tolerance)
    return type(a) is type(b) and a == b


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 600 else f"{text[:600]}… ({len(text):,} characters)"
