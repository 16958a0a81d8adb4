"""How do batches of a run become a folder of files, exactly once, and what does the folder know of its run?

One Parquet file per batch in each of `changes/`, `rejects/` and `health/`, named by the batch's number. A batch that is
done again after a crash has the same number and the same content, so its files are written over by themselves.

`about.json` remembers the query and the columns of the stream; going on with another is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fogline.errors import FoglineError
from fogline.flow.folder import Folder
from fogline.flow.journal import CHANGES, HEALTH, KINDS, group_columns
from fogline.flow.stages import opened
from fogline.model import Query
from fogline.repository.repository import Repository

ABOUT = "about.json"


@dataclass(frozen=True, slots=True)
class RunConfig:
    """What is watched, and where the answer goes."""

    stream: str
    output: str
    query: Query
    repository: Repository | None = None
    every: str = "tick"
    lateness: Any = 0
    ahead: Any = "auto"
    idle: Any = "auto"  # it may differ when a run is resumed

    def about(self) -> dict[str, Any]:
        """What must stay the same when a run is resumed."""
        return {
            "query": self.query.to_dict(),
            "repository": None if self.repository is None else self.repository.fingerprint,
            "every": self.every,
            "lateness": str(self.lateness),
            "ahead": str(self.ahead),
        }


@dataclass(slots=True)
class RunStatus:
    """How a run is doing, as its batches show."""

    batch: int = -1
    seconds: float = 0.0  # of the last batch
    rows: int = 0  # of the last batch
    total: int = 0
    rejected: int = 0
    held: int = 0  # rows that ran ahead of their group, and have not entered
    expired: int = 0  # rows that had expired before they could enter
    changes: int = 0
    waiting: int = 0
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)  # group -> live rows, members; those with any

    @property
    def live(self) -> int:
        """Rows that can still matter, in all groups."""
        return sum(live for live, _ in self.sizes.values())

    @property
    def answer(self) -> int:
        """Rows in the answer, in all groups."""
        return sum(members for _, members in self.sizes.values())

    def update(self, parts: dict[str, pa.Table], number: int, seconds: float, query: Query) -> None:
        """Take in what a batch has reported."""
        health = parts[HEALTH]
        self.batch, self.seconds = number, seconds
        self.rows = _sum(health["rows"])
        self.total += self.rows
        self.rejected += _sum(health["rejected"])
        self.held += _sum(health["held"]) - _sum(health["released"])
        self.expired += _sum(health["expired"])
        self.changes += parts[CHANGES].num_rows if CHANGES in parts else 0
        names = group_columns(tuple(query.by), HEALTH)
        for row in health.select([*names, "live", "answer"]).to_pylist():
            key = json.dumps([row[name] for name in names], default=str)
            self.sizes[key] = row["live"], row["answer"]
            if not row["live"]:
                del self.sizes[key]
        self.waiting = _sum(health["waiting"])


def _sum(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)


class Output:
    """The folder that a run writes."""

    def __init__(self, place: Folder, config: RunConfig) -> None:
        self.place, self.config = place, config
        self.buckets: int | None = None  # of sensors, in the checkpoint of a run that has begun

    def shape(self) -> dict[str, str] | None:
        """The columns of the stream as they were when the run began; None: it begins now. Another run is refused."""
        known = self.place.get(ABOUT)
        if known is None:
            return None
        before = json.loads(known)
        shape: dict[str, str] = before.pop("shape")
        self.buckets = before.pop("buckets", None)
        refuse_other(before, self.config.about(), self.config.output)
        return shape

    def begin(self, shape: dict[str, str], buckets: int) -> None:
        """Remember what this run is about."""
        self.buckets = buckets
        about = {**self.config.about(), "buckets": buckets, "shape": shape}
        self.place.put(ABOUT, json.dumps(about, indent=1).encode())

    def write(self, number: int, parts: dict[str, pa.Table]) -> None:
        """One file for each kind that has rows."""
        for kind, table in parts.items():
            if table.num_rows:
                sink = pa.BufferOutputStream()
                pq.write_table(table, sink)
                self.place.put(f"{kind}/batch-{number:09}.parquet", sink.getvalue().to_pybytes())


def tables_of(journals: Iterable[pa.RecordBatch], number: int, seconds: float) -> dict[str, pa.Table]:
    """The tables of a batch by their kinds, from packed journals; health with the batch's number and seconds."""
    batches = list(journals)
    found = {kind: list(opened(batches, kind)) for kind in KINDS}
    parts = {kind: pa.concat_tables(tables) for kind, tables in found.items() if tables}
    if HEALTH in parts:
        health = parts[HEALTH]
        about = {"batch": pa.repeat(number, health.num_rows), "seconds": pa.repeat(seconds, health.num_rows)}
        parts[HEALTH] = pa.table({**about, **dict(zip(health.schema.names, health.columns, strict=True))})
    return parts


def refuse_other(before: dict[str, Any], now: dict[str, Any], output: str) -> None:
    """A run goes on with what it was started with, or not at all."""
    for name, was in before.items():
        if was != now[name]:
            raise FoglineError(
                f"{output!r} was begun with another {name}.\n  it was {was}\n  now it is {now[name]}\n"
                "Go on with the old one, or choose another output."
            )
