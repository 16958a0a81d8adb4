"""With which repository does a run go on?

With the version it was begun with, also when the repository's folder has a newer one by now: its state was made with
that, and the folder keeps it. Unless the caller accepts another one: then what was imputed stays, and what comes from
the next batch on is imputed by that one. A batch that was begun and not finished is finished as it was begun, since
parts of it may have been written.

A run that has moved needs all repositories that it had: a group that has been silent since is still as one of them
left it. The output's `about.json` knows them, where they lay, and from which batch on each was the run's.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fogline.errors import FoglineError, HistoryError
from fogline.flow.about import read_about
from fogline.flow.folder import Folder
from fogline.flow.names import REPOSITORIES
from fogline.flow.output import RunConfig, has_batches
from fogline.flow.plans import AnyPlan
from fogline.repository import cache
from fogline.repository.repository import Repository


def as_begun(config: RunConfig, place: Folder) -> RunConfig:
    """The same run with the version that it was begun with, where that is still there, and with those before it.

    Where another one is accepted, that is the config's `successor`.
    """
    known, about = config.repository, read_about(place)
    if known is None or known.folder is None or about is None or not has_batches(place):
        return _refuse_to_move(config, about)
    mark = about.get("repository")
    there, had = str(known.folder), about.get(REPOSITORIES, [])
    earlier = (_earlier(each["fingerprint"], [each["folder"], there], config.output) for each in had[:-1])
    config = replace(config, formers=tuple(earlier))
    if mark == known.fingerprint:
        return config
    if config.accepts:
        folder = had[-1]["folder"] if had else None
        return replace(config, repository=_earlier(mark, [folder, there], config.output), successor=known)
    if mark is None:
        return config
    try:
        return replace(config, repository=Repository.load(cache.beside(known.folder, mark) or known.folder, mark))
    except HistoryError:  # the output refuses the run, and names both
        return config


def moved(config: RunConfig) -> RunConfig:
    """The run with its successor, from the next batch on."""
    before = (*config.formers, config.repository)
    return replace(config, repository=config.successor, successor=None, formers=before)


def must_fit(before: AnyPlan, after: AnyPlan) -> None:
    """An error, if what was kept under one plan cannot go on under the other; nothing has changed yet."""
    if before.remembers == after.remembers:
        return
    first, then = ("remembers", "does not") if before.remembers else ("does not remember", "does")
    raise FoglineError(
        f"the run {first} what sensors have read, and the new repository {then}: what is kept for the one is of no use "
        "to the other. Fit a repository that names sensors and times as the old one did, or choose another output."
    )


def _refuse_to_move(config: RunConfig, about: dict[str, Any] | None) -> RunConfig:
    """The config as it is; refused, if it is to move to a repository that has no name."""
    known = config.repository
    if config.accepts and about is not None:
        if known is None:
            raise FoglineError("--accept-repository goes on with another repository: name it with --repository.")
        if known.folder is None:
            raise FoglineError("a run goes on with a repository that lies in a folder: save it first.")
    return config


def _earlier(mark: str | None, folders: list[str | None], output: str) -> Repository | None:
    """A repository that a run has had; None: it had none."""
    if mark is None:
        return None
    places = list(dict.fromkeys(each for each in folders if each is not None))
    places += [str(other) for each in places if (other := cache.beside(Path(each), mark)) is not None]
    for each in places:
        try:
            return Repository.load(each, mark)
        except HistoryError:
            continue
    raise FoglineError(
        f"the run in {output!r} has imputed values by the repository {mark[:12]}…, and needs it for what it keeps of "
        f"them, but {' and '.join(map(repr, places))} {'holds' if len(places) == 1 else 'hold'} no such version. "
        "Put it back, or choose another output."
    )


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
