"""With which repository does a run go on?

With the version it was begun with, also when the repository's folder has a newer one by now: its state was made with
that, and the folder keeps it. Unless the caller accepts another one: then what was imputed stays, and what comes from
the next batch on is imputed by that one. A batch that was begun and not finished is finished as it was begun, since
parts of it may have been written.

A run that has moved needs all repositories that it had: a group that has been silent since is still as one of them
left it. The output's `about.json` knows them, where they lay, and from which batch on each was the run's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fogline.durable import must_be_writable
from fogline.errors import FoglineError, HistoryError
from fogline.files.layout import layout_of
from fogline.files.listing import absolute, files_of, is_local, must_be_apart, size_of
from fogline.files.one_file import bytes_per_row
from fogline.files.reading import batches
from fogline.files.settled import Layout
from fogline.output.about import read_about
from fogline.output.folder import Folder, LocalFolder
from fogline.pipeline.names import REPOSITORIES
from fogline.pipeline.plan import BUCKETS
from fogline.pipeline.plans import Plans, plans_of
from fogline.repository import cache
from fogline.repository.repository import Repository
from fogline.runs.config import PLANNED, Output, RunConfig, has_batches
from fogline.runs.estimate import Estimate, estimate


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


def must_fit(before: Plans, after: Plans) -> None:
    """An error, if what was kept under one plan cannot go on under the other; nothing has changed yet."""
    if before.first.remembers == after.first.remembers:
        return
    first, then = ("remembers", "does not") if before.first.remembers else ("does not remember", "does")
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


# --- starting ---
# May this run begin, or go on?
#
# All that can be wrong with a command is looked at before a folder is made and before an engine, which takes seconds,
# is
# started: so a start that fails leaves nothing behind that would refuse the command that was meant.

SECONDS = 2.0  # that an estimate may take, about


def ready(config: RunConfig, *, clock: str | None = None, remark: Callable[[str], None] = lambda text: None) -> None:
    """An error, if this run can neither begin nor go on; nothing is written.

    Of a stream or an output in another file system only the engine can know more.
    """
    must_be_apart(config.stream, config.output)
    if is_local(config.output):
        must_be_writable(config.output)
        if Path(config.output).exists() and not Path(config.output).is_dir():
            raise FoglineError(
                f"the output {config.output!r} is a file, where a folder is needed; choose another place."
            )
    if is_local(config.stream) and is_local(config.output):
        _looked_at(config, clock, remark)


def expected(config: RunConfig, *, clock: str | None, batch: int) -> list[Estimate]:
    """What a run over files of this machine will take, for each query; nothing for one that goes on, or elsewhere."""
    if not is_local(config.stream) or not is_local(config.output):
        return []
    new, layout, plan = _looked_at(config, clock, lambda text: None)
    each = bytes_per_row(config.stream)
    if not new or each is None:
        return []
    files = files_of(config.stream)
    total = sum(map(size_of, files)) / each
    found = []
    for _, one in plan.named:
        rows = (batch for file in files for batch in batches(str(file), layout))
        found.append(estimate(one, rows, total=total, batch=batch, seconds=SECONDS))
    return [one for one in found if one is not None]


def _looked_at(config: RunConfig, clock: str | None, remark: Callable[[str], None]) -> tuple[bool, Layout, Plans]:
    """Whether a run begins now, how its files are read, and its plan; nothing is written."""
    place = LocalFolder(absolute(config.output))
    output = Output(place, as_begun(config, place))
    layout, new = _layout_for(output, output.begun(), clock, remark)
    return new, layout, plans_for_files(output, layout, follow=True)[0]


def layout_for(
    output: Output, clock: str | None, remark: Callable[[str], None] = lambda text: None
) -> tuple[Layout, bool]:
    """How the files of a run are read, and whether it begins now; one that goes on is made ready for it."""
    return _layout_for(output, output.shape(), clock, remark)


def _layout_for(
    output: Output, shape: dict[str, Any] | None, clock: str | None, remark: Callable[[str], None]
) -> tuple[Layout, bool]:
    config = output.config
    if shape is None:
        how: dict[str, Any] = {"clock": clock, "lateness": config.lateness, "remark": remark}
        return layout_of(config.stream, config.query, config.options, **how), True
    layout = Layout.from_dict(shape, config.stream)
    layout.check(config.options, clock, config.output)
    return layout, False


def plans_for_files(output: Output, layout: Layout, *, follow: bool) -> tuple[Plans, Plans | None]:
    """The plan of a run, and that of its next batches, if it is to go on with another repository."""
    config, buckets = output.config, output.buckets
    plan = plan_for_files(config, layout, follow=follow, buckets=buckets)
    if config.successor is None:
        return plan, None
    after = plan_for_files(moved(config), layout, follow=follow, buckets=buckets)
    must_fit(plan, after)
    return plan, after


def plan_for_files(config: RunConfig, layout: Layout, *, follow: bool, buckets: int | None) -> Plans:
    """The plan of a run over files; errors name what does not fit."""
    repository = config.repository
    how = {name: getattr(config, name) for name in PLANNED}
    how |= {"clock": layout.clock or None, "versions": layout.versions or None, "moves_idle": follow}
    how |= {"formers": [_giving(each) for each in config.formers]}
    return plans_of(config.query, layout.schema, opened=_giving(repository), buckets=buckets or BUCKETS, **how)


def _giving(repository: Repository | None) -> Callable[[], Repository] | None:
    return None if repository is None else lambda: repository
