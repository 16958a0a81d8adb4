"""May this run begin, or go on?

All that can be wrong with a command is looked at before a folder is made and before an engine, which takes seconds, is
started: so a start that fails leaves nothing behind that would refuse the command that was meant.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fogline.durable import must_be_writable
from fogline.errors import FoglineError
from fogline.files.apart import must_be_apart
from fogline.files.layout import layout_of
from fogline.files.listing import files_of, size_of
from fogline.files.paths import absolute, is_local
from fogline.files.reading import batches
from fogline.files.row_size import bytes_per_row
from fogline.files.settled import Layout
from fogline.flow.estimate import Estimate, estimate
from fogline.flow.folder import LocalFolder
from fogline.flow.output import PLANNED, Output, RunConfig
from fogline.flow.plan import BUCKETS, Plan
from fogline.flow.plans import AnyPlan, plan_of
from fogline.flow.resume import as_begun, moved, must_fit
from fogline.repository.repository import Repository

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
    for one in [plan] if isinstance(plan, Plan) else [own for _, own in plan.named]:
        rows = (batch for file in files for batch in batches(str(file), layout))
        found.append(estimate(one, rows, total=total, batch=batch, seconds=SECONDS))
    return [one for one in found if one is not None]


def _looked_at(config: RunConfig, clock: str | None, remark: Callable[[str], None]) -> tuple[bool, Layout, AnyPlan]:
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


def plans_for_files(output: Output, layout: Layout, *, follow: bool) -> tuple[AnyPlan, AnyPlan | None]:
    """The plan of a run, and that of its next batches, if it is to go on with another repository."""
    config, buckets = output.config, output.buckets
    plan = plan_for_files(config, layout, follow=follow, buckets=buckets)
    if config.successor is None:
        return plan, None
    after = plan_for_files(moved(config), layout, follow=follow, buckets=buckets)
    must_fit(plan, after)
    return plan, after


def plan_for_files(config: RunConfig, layout: Layout, *, follow: bool, buckets: int | None) -> AnyPlan:
    """The plan of a run over files; errors name what does not fit."""
    repository = config.repository
    how = {name: getattr(config, name) for name in PLANNED}
    how |= {"clock": layout.clock or None, "versions": layout.versions or None, "moves_idle": follow}
    how |= {"formers": [_giving(each) for each in config.formers]}
    return plan_of(config.query, layout.schema, opened=_giving(repository), buckets=buckets or BUCKETS, **how)


def _giving(repository: Repository | None) -> Callable[[], Repository] | None:
    return None if repository is None else lambda: repository
