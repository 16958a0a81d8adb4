"""Which columns count, and which way? Read from what a person wrote, who may know it from another library.

paretoset takes a list, one word per column; rPref has `high` and `low`. Each mistake has an error that shows how it is
written here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from fogline.errors import QueryError, did_you_mean

_WAYS = ("min", "max")
_OTHER_WORDS = {"low": "min", "lower": "min", "high": "max", "higher": "max", "maximize": "max", "minimize": "min"}


def ways_of(given: Any, known: Sequence[Any]) -> dict[Hashable, str]:
    """What counts, and which way."""
    if not isinstance(given, Mapping):
        raise QueryError(
            f"the second argument maps columns to 'min' or 'max': {_suggested(given, known)}; it is {_short(given)}."
        )
    if not given:
        raise QueryError("no column counts; map some to 'min' or 'max', for instance {'price': 'min'}.")
    for name, way in given.items():
        if way in _WAYS:
            continue
        if name in _WAYS:
            raise QueryError(f"columns are mapped to 'min' or 'max', not the other way round: {{{way!r}: {name!r}}}.")
        if way == "diff":
            raise QueryError(
                f"for a skyline of its own per value of {name!r}, leave it out here and write by={name!r}."
            )
        word = str(way).lower()
        guess = _OTHER_WORDS.get(word) or (word if word in _WAYS else None)
        hint = f"\nDid you mean {guess!r}?" if guess else did_you_mean(word, _WAYS)
        raise QueryError(f"column {name!r} is {way!r}; it may be 'max' (more is better) or 'min'.{hint}")
    return dict(given)


def _suggested(given: Any, known: Sequence[Any]) -> str:
    """How it should be written: with a list as paretoset takes it, that very mapping."""
    if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == len(known):
        pairs = [(name, way) for name, way in zip(known, given, strict=True) if way in _WAYS]
        if len(pairs) == len(given):
            return "{" + ", ".join(f"{name!r}: {way!r}" for name, way in pairs) + "}"
    names = [given] if isinstance(given, str) else given if isinstance(given, Iterable) else ()
    names = [name for name in names if isinstance(name, Hashable) and name in known] or ["price"]
    return "{" + ", ".join(f"{name!r}: 'min'" for name in names) + "}"


def _short(given: Any) -> str:
    text = repr(given) if isinstance(given, str | list | tuple | int | float) else f"a {type(given).__name__}"
    return text if len(text) <= 60 else f"{text[:59]}…"
