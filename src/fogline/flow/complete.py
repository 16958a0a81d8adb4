"""Are all files of an output there that its run has written?

Batches without changes have no file in `changes/`, and those that report nothing have none at all, so names alone do
not show it. Each file of `health/` has a *note* beside its columns: the batch of health before it, and which of its own
batches have changes and rejects. A batch's health is written last, so what its note states is there, or is missing.

A reader lists health before the other kinds: then a batch that is being written meanwhile is no hole. Files without a
note, of an earlier version, state nothing. If the newest batches are gone altogether, nothing is left that knows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fogline.flow.batches import Held, counted
from fogline.flow.folder import Folder
from fogline.flow.kept_file import KeptFile
from fogline.flow.listed import HoleError
from fogline.flow.names import CHANGES, HEALTH, REJECTS
from fogline.saved import opened, sealed

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
    if (plain := opened(known)) is None:
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
        "a copy of it, or run the stream again with another output; to remove old batches, use --keep."
    )
