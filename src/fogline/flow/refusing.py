"""May a run go on in a folder that another may have begun, and if not, what differs?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fogline.errors import FoglineError
from fogline.files.listing import folders_in
from fogline.flow.batches import counted
from fogline.flow.folder import Folder
from fogline.flow.names import CHECKPOINT, HERE, KINDS, MARK, VIEWS
from fogline.queries import differing, differing_fields
from fogline.saved import opened

if TYPE_CHECKING:
    from fogline.flow.output import RunConfig


def refuse_other(before: dict[str, Any], now: dict[str, Any], output: str) -> None:
    """A run goes on with what it was started with, or not at all."""
    if unknown := sorted(before.keys() - now.keys()):
        raise FoglineError(
            f"{output!r} was begun by a newer Fogline, which knows of {', '.join(map(repr, unknown))}. Install that "
            "one, or choose another output."
        )
    for name, was in before.items():
        if was != now[name]:
            several = differing(was, now[name]) if name == "query" else None
            if several is not None:
                raise FoglineError(
                    f"{output!r} was begun with other queries: {several}.\nGo on with the old ones, by their names, or "
                    "choose another output."
                )
            if name == "query":
                raise FoglineError(
                    f"{output!r} was begun with another query: {differing_fields(was, now[name])}.\n"
                    "Go on with the old one, or choose another output."
                )
            what = "list of sinks" if name == "sinks" else name
            raise FoglineError(
                f"{output!r} was begun with another {what}.\n  it was {was}\n  now it is {now[name]}\n"
                f"Go on with the old one, {'add --accept-repository, ' if name == 'repository' else ''}"
                "or choose another output."
            )


def refuse_other_columns(explained: bool, config: RunConfig) -> None:
    """The columns of changes stay the same as long as a run goes on, wherever they go."""
    if explained != config.explain:
        was, way = ("with", "add it again") if explained else ("without", "leave it out")
        raise FoglineError(
            f"{config.output!r} was begun {was} --explain, which adds a column to its changes: {way}, or choose "
            "another output."
        )


def refuse_other_engine(was: str, config: RunConfig) -> None:
    """The checkpoint of one engine is nothing to another."""
    if was != config.engine:
        raise FoglineError(
            f"{config.output!r} was begun by the engine {was}, and its checkpoint is nothing to the engine "
            f"{config.engine}. Go on with --engine {was}, or choose another output."
        )


def refuse_other_checkpoint(place: Folder, mark: str | None, output: str) -> None:
    """Batches are numbered by the checkpoint: with another, or an older copy, old files would stand among new ones."""
    if mark is None:
        raise FoglineError(f"{output!r} was begun by another version of Fogline; choose another output.")
    found = place.get(MARK)
    way_out = "Put back the one that belongs to it, or choose another output."
    if found is None:
        raise FoglineError(
            f"the checkpoint of {output!r} is gone: a new one would count batches from 0 again, among the files of "
            f"the old ones. {way_out}"
        )
    if _mark_in(found, way_out) != mark:
        raise FoglineError(f"the checkpoint in {output!r} belongs to another output. {way_out}")
    newest = max((held.last for kind in (*KINDS, *VIEWS) for held in counted(place.listing(kind))), default=-1)
    known = [int(last) for name in place.listing(f"{CHECKPOINT}/offsets") if (last := name.split("/")[-1]).isdigit()]
    if newest > max(known, default=-1):
        raise FoglineError(
            f"the checkpoint in {output!r} is an old copy: it knows of batches up to {max(known, default=-1)}, "
            f"but there are files of batch {newest}. {way_out}"
        )


def _mark_in(content: bytes, way_out: str) -> str:
    found = opened(content)
    if found is None or "mark" not in found:
        raise FoglineError(f"{MARK!r} is damaged: it is not what a run has written. {way_out}")
    return str(found["mark"])


def kinds_of(places: list[str]) -> list[str]:
    """Of what kind the places are that batches go to: a folder, a topic, tables.

    >>> kinds_of(["kafka://b:9092/t", "delta:/x", "/out/b:c", "its own folder"])
    ['delta', 'folder', 'its own folder', 'kafka']
    """
    return sorted(place if place == HERE else (re.match(r"\w+(?=:)", place) or ["folder"])[0] for place in places)


def refuse_subfolders(stream: str) -> None:
    """A stream that was moved knows its files by their names alone: they must lie in one folder."""
    if len(folders := folders_in(stream)) > 1:
        raise FoglineError(
            f"{stream!r} has files in {len(folders)} folders, and in one that was moved files are known by their names "
            "alone.\nPut the folder back where it was, or choose another output."
        )
