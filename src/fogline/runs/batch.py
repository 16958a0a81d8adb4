"""What has a batch reported, and where does it lie?

What is small is at hand, packed; the rest lies in files of the output folder that have no place yet (`runs.spill`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from fogline.output.folder import Folder
from fogline.output.folder_sink import Reported, file_of, tables_of
from fogline.output.sink import put_all
from fogline.pipeline.limits import LARGE, alarms
from fogline.pipeline.names import CHANGES, HEALTH, REJECTS, VIEWS
from fogline.pipeline.stages import opened
from fogline.queries import QUERY
from fogline.runs.config import Output, RunStatus
from fogline.runs.spill import PIECES, spilled_files


@dataclass(frozen=True, slots=True)
class Collected:
    """What a batch has reported."""

    results: list[pa.RecordBatch]  # packed
    files: list[tuple[str, str]]  # kind, name: what is not in the results, but for health
    rows: Counter[str]  # of each kind, in the files
    health: list[pa.Table]  # what is not in the results
    queries: Counter[str] = field(default_factory=Counter)  # changes in the files by query, where these have names
    large: list[pa.Table] = field(default_factory=list)  # groups that are near their limit of state
    refused: list[pa.Table] = field(default_factory=list)  # of rejects in the files: the reason, and the query

    def __bool__(self) -> bool:
        return bool(self.files or self.health or any(batch.num_rows for batch in self.results))


def from_packed(place: Folder, results: list[pa.RecordBatch]) -> Collected:
    """What packed results hold, and the files that they name."""
    files = spilled_files(results)
    health = [file_of(place, name).read() for kind, name in files if kind == HEALTH]
    large = list(opened(results, LARGE))
    return collected(place, results, [pair for pair in files if pair[0] != HEALTH], health, large)


def collected(
    place: Folder,
    results: list[pa.RecordBatch],
    files: list[tuple[str, str]],
    health: list[pa.Table],
    large: list[pa.Table],
) -> Collected:
    """What was reported, with the rows of the files counted."""
    rows, queries, refused = Counter[str](), Counter[str](), list[pa.Table]()
    for kind, name in files:
        file = file_of(place, name)
        rows[kind] += file.metadata.num_rows
        if kind == CHANGES and QUERY in file.schema_arrow.names:
            queries.update(file.read([QUERY])[QUERY].to_pylist())
        if kind == REJECTS:
            refused.append(file.read(_counted(file.schema_arrow)))
    return Collected(results, files, rows, health, queries, large, refused)


def _counted(schema: pa.Schema) -> list[str]:
    """The columns of rejects that are counted."""
    return [name for name in (QUERY, "reason") if name in schema.names]


def write_batch(
    output: Output,
    status: RunStatus,
    found: Collected,
    number: int,
    seconds: float,
    remark: Callable[[str], None],
) -> None:
    """What was reported goes to every sink, and the status knows of it; unless a group is larger than it may be."""
    parts = tables_of(found.results, number, seconds, found.health)
    full = alarms(output.config.limits, parts.get(HEALTH), found.large)

    def reported(kind: str) -> Reported:
        return Reported(output.place, kind, number, parts.get(kind), [name for of, name in found.files if of == kind])

    if output.config.keeps:
        output.folder.put_views(number, {kind: reported(kind) for kind in VIEWS})
    put_all(output.sinks, number, reported)
    if found.files or found.health:
        output.place.clear(PIECES)
    if found.refused:
        small = [parts[REJECTS].select(_counted(parts[REJECTS].schema))] if REJECTS in parts else []
        parts[REJECTS] = pa.concat_tables([*small, *found.refused])
    status.update(parts, number, seconds, output.config.query)
    if (text := status.warning()) is not None:
        remark(text)
    status.changes += found.rows[CHANGES]
    status.alarms = output.alarms.update(output.config.limits, full, parts.get(HEALTH))
    for name, one in status.each.items():
        one.changes += found.queries[name]
