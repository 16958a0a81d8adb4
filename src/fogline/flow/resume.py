"""With which version of the repository does a run go on?

With the one it was begun with, also when the repository's folder has a newer one by now: its state was made with that,
and the folder keeps it.
"""

from __future__ import annotations

from dataclasses import replace

from fogline.errors import FoglineError, HistoryError
from fogline.flow.about import read_about
from fogline.flow.folder import Folder
from fogline.flow.output import RunConfig, has_batches
from fogline.repository import cache
from fogline.repository.repository import Repository


def as_begun(config: RunConfig, place: Folder) -> RunConfig:
    """The same run with the version that it was begun with, where that is still there."""
    known, about = config.repository, read_about(place)
    if known is None or known.folder is None or about is None or not has_batches(place):
        return config
    mark = about.get("repository")
    if mark in (None, known.fingerprint):
        return config
    try:
        folder = cache.root() / mark if cache.holds(known.folder) else known.folder  # there each lies by itself
        return replace(config, repository=Repository.load(folder, mark))
    except HistoryError:  # the output refuses the run, and names both
        return config


def begun_with(place: Folder, output: str, known: Repository) -> Repository:
    """The version of a repository that the run in a folder was begun with; refused, where it was another repository."""
    mark = (read_about(place) or {}).get("repository")
    if mark == known.fingerprint:
        return known
    here = "" if known.folder is None else f" in {str(known.folder)!r}"
    if mark is None:
        raise FoglineError(f"the run in {output!r} was begun without a repository: no rule has filled a gap there.")
    try:
        return Repository.load(known.folder or "", mark)
    except HistoryError:
        raise FoglineError(
            f"the run in {output!r} was begun with another repository ({mark[:12]}…) than the one{here} "
            f"({known.fingerprint[:12]}…), nor is that an older version of it; name the folder that the run was given."
        ) from None
