"""Which files of a folder hold which batches, and which of them count?

A name shows what its file holds: `batch-000000007.parquet` one batch, `batch-000000000-000000099.parquet` a hundred of
them, `batch-000000007.0002of0003.parquet` the second of three parts of a large one. A file whose batches lie within
those of another does not count: it is about to be deleted. Parts count when all of them are there. So a reader
that lists the folder at any moment sees each batch once or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_NAME = re.compile(r".*/batch-(\d+)(?:-(\d+))?(?:\.(\d+)of(\d+))?\.parquet")


@dataclass(frozen=True, slots=True)
class Held:
    """Files that hold some batches of one kind."""

    first: int
    last: int
    names: tuple[str, ...]  # more than one where a large batch has parts, in their order
    size: int  # bytes


def batch_name(kind: str, first: int, last: int | None = None) -> str:
    """The file for a batch, or for all from the first to the last."""
    return f"{kind}/batch-{first:09}{'' if last is None or last == first else f'-{last:09}'}.parquet"


def part_name(kind: str, number: int, part: int, of: int) -> str:
    """The file for one part of a large batch; parts are counted from 1."""
    return f"{kind}/batch-{number:09}.{part:04}of{of:04}.parquet" if of > 1 else batch_name(kind, number)


def counted(listing: Mapping[str, int]) -> list[Held]:
    """What counts of the files of a kind, in the order of batches."""
    parts: dict[tuple[int, int, int], dict[int, str]] = {}
    for name in listing:
        if (found := _NAME.fullmatch(name)) is not None:
            first, last, part, of = (None if each is None else int(each) for each in found.groups())
            key = (int(found[1]), int(found[1]) if last is None else last, 1 if of is None else of)
            parts.setdefault(key, {})[1 if part is None else part] = name
    held: list[Held] = []
    for (first, last, of), names in sorted(parts.items(), key=lambda item: (item[0][0], -item[0][1])):
        if len(names) == of and (not held or last > held[-1].last):
            ordered = tuple(names[k] for k in sorted(names))
            held.append(Held(first, last, ordered, sum(listing[name] for name in ordered)))
    return held


def superseded(listing: Mapping[str, int]) -> list[str]:
    """The files that do not count, and never will."""
    counting = {name for held in counted(listing) for name in held.names}
    return [name for name in listing if _NAME.fullmatch(name) is not None and name not in counting]


def of_batch(listing: Mapping[str, int], number: int) -> list[str]:
    """All files that were begun for this batch alone."""
    found = ((name, _NAME.fullmatch(name)) for name in listing)
    return [name for name, match in found if match is not None and int(match[1]) == number and match[2] is None]
