"""Which files of an output hold which batches, are they what was written, and are all of them there?

*Names.* A name shows what its file holds: `batch-000000007.parquet` one batch, `batch-000000000-000000099.parquet` a
hundred of them, `batch-000000007.0002of0003.parquet` the second of three parts of a large one. A file whose batches lie
within those of another does not count: it is about to be deleted. Parts count when all of them are there. So a reader
that lists the folder at any moment sees each batch once or not at all.

*Content.* Pages are written with checksums (`CHECKED`), which Fogline looks at whenever it reads them: a damaged page
is an error that names its file, and never another answer. (Of the footer, Parquet has no checksum.)

*Holes.* Batches without changes have no file in `changes/`, and those that report nothing have none at all, so names
alone do not show whether a file is missing. Each file of `health/` has a *note* beside its columns: the batch of health
before it, and which of its own batches have changes and rejects. A batch's health is written last, so what its note
states is there, or is missing. A reader lists health before the other kinds: then a batch that is being written
meanwhile is no hole. Files without a note, of an earlier version, state nothing. If the newest batches are gone
altogether, nothing is left that knows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fogline.errors import FoglineError
from fogline.output.folder import Folder, HoleError, opened
from fogline.pipeline.names import CHANGES, HEALTH, REJECTS
from fogline.saved import opened as unframed
from fogline.saved import sealed

CHECKED = {"write_page_checksum": True}  # how files of an output are written


class KeptFile:
    """A file that was listed, to be read as a whole or in row groups."""

    def __init__(self, place: Folder, name: str) -> None:
        self.name = name
        found = opened(place, name)
        with self.named():
            self.file = pq.ParquetFile(found, page_checksum_verification=True)
        self.metadata, self.schema_arrow = self.file.metadata, self.file.schema_arrow
        self.num_row_groups: int = self.file.num_row_groups

    def read(self, columns: list[str] | None = None) -> pa.Table:
        with self.named():
            return self.file.read(columns)

    def read_row_group(self, k: int, columns: Any = None) -> pa.Table:
        with self.named():
            return self.file.read_row_group(k, columns)

    @contextmanager
    def named(self) -> Iterator[None]:
        """What goes wrong here is damage to this file."""
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = next((line.strip(" .") for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise self.damaged(reason) from error

    def damaged(self, reason: str) -> FoglineError:
        """The error that names it."""
        return FoglineError(
            f"{self.name!r} of the output is damaged, and cannot be read: {reason}. Put back a good copy of it, or "
            "choose another output."
        )


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


_NOTE = b"fogline"
Range = tuple[int, int]  # the first and the last batch


@dataclass(frozen=True, slots=True)
class Note:
    """What a file of health knows of other files."""

    after: int | None  # the batch of the health before it, -1: there is none; None: it is not known
    holds: Mapping[str, tuple[Range, ...]] = field(default_factory=dict)  # by kind: its batches that have files
    lost: tuple[tuple[str, int], ...] = ()  # kinds and batches of files that were missing when others were joined

    def to_metadata(self) -> dict[bytes, str]:
        """To be kept beside the columns of a table."""
        return {_NOTE: sealed({"after": self.after, "holds": self.holds, "lost": self.lost})}


def last_before(place: Folder, number: int) -> int:
    """The last batch before this one that has health; -1: there is none."""
    return max((held.last for held in counted(place.listing(HEALTH)) if held.last < number), default=-1)


def note_of(number: int, after: int, kinds: Iterable[str]) -> Note:
    """The note of a batch that has files of these kinds."""
    return Note(after, dict.fromkeys(kinds, ((number, number),)))


def read_note(file: KeptFile) -> Note | None:
    """The note of a file of health; None: it has none."""
    known = (file.schema_arrow.metadata or {}).get(_NOTE)
    if known is None:
        return None
    if (plain := unframed(known)) is None:
        raise file.damaged("it is not what a run has written")
    holds = {kind: tuple((first, last) for first, last in each) for kind, each in plain["holds"].items()}
    return Note(plain["after"], holds, tuple((kind, batch) for kind, batch in plain["lost"]))


def joined_note(place: Folder, held: Sequence[Held]) -> Note:
    """The note of a file that is to stand for several of health, one after the other; other kinds are joined later."""
    notes = [read_note(KeptFile(place, each.names[0])) for each in held]
    lost = [each for note in notes if note is not None for each in note.lost]
    for before, note in zip(held, notes[1:], strict=False):
        if note is not None and note.after is not None and note.after > before.last:
            lost.append((HEALTH, note.after))
    holds: dict[str, tuple[Range, ...]] = {}
    for kind in (CHANGES, REJECTS):
        there = counted(place.listing(kind))
        found = [each for note in notes if note is not None for each in note.holds.get(kind, ())]
        covered = {each: next((h for h in there if _covers(h, each)), None) for each in found}
        lost += [(kind, each[0]) for each, h in covered.items() if h is None]
        # what lies in one file is one range, so that notes stay small
        holds[kind] = tuple(dict.fromkeys((h.first, h.last) for h in covered.values() if h is not None))
    return Note(None if notes[0] is None else notes[0].after, holds, tuple(lost))


def refuse_hole(place: Folder, output: str, *, after: int, upto: int | None = None, kinds: Iterable[str] = ()) -> None:
    """An error, if a file is missing of health or of these kinds, among the batches after one, up to another."""
    health = [h for h in counted(place.listing(HEALTH)) if h.last > after and (upto is None or h.last <= upto)]
    listed = {kind: counted(place.listing(kind)) for kind in kinds}
    before = after
    for held in health:
        note = read_note(KeptFile(place, held.names[0]))
        if note is not None:
            if note.after is not None and note.after > before:
                raise _hole(output, HEALTH, note.after)
            for kind, batch in note.lost:
                if batch > after and kind in (HEALTH, *listed):
                    raise _hole(output, kind, batch)
            for kind, there in listed.items():
                for each in note.holds.get(kind, ()):
                    if each[1] > after and not any(_covers(h, each) for h in there):
                        raise _hole(output, kind, each[0])
        before = held.last


def _covers(held: Held, each: Range) -> bool:
    return held.first <= each[0] and each[1] <= held.last


def _hole(output: str, kind: str, batch: int) -> HoleError:
    return HoleError(
        f"{output!r} is not whole: of batch {batch} the run has written a file in {kind}/, which is missing. Put back "
        "a copy of it, or run the stream again with another output; to remove old batches, use --keep-batches."
    )
