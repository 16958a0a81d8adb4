"""Outputs that a page may be opened on, written as a run writes them: by the formats alone, without an engine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import fogline as fl
from fogline.output.folder import LocalFolder
from fogline.output.folder_sink import Reported
from fogline.pipeline.names import near_schema, next_schema
from fogline.pipeline.report import COUNTERS
from fogline.rows.changes import change_schema
from fogline.rows.names import Kinds
from fogline.runs.config import Output, RunConfig

QUERY = fl.Query(attributes={"heat": "max", "air": "min"}, id="sensor", time="t", lifetime=100)
KINDS = Kinds(pa.int64(), pa.string(), ())
HOSTILE = "<img src=x onerror=alert(1)>"


class Writer:
    """A run that writes what it is given."""

    def __init__(
        self, path: Path, query: Any = QUERY, kinds: Kinds = KINDS, *, explain: bool = True, **shape: Any
    ) -> None:
        self.path, self.query, self.kinds = path, query, kinds
        self.output = Output(LocalFolder(path), RunConfig("in", str(path), query, explain=explain))
        self.output.begin(shape)
        self.number = 0
        self.members: set[tuple[Any, ...]] = set()

    def batch(
        self,
        time: Any,
        changes: Iterable[dict[str, Any]] = (),
        near: Iterable[dict[str, Any]] | None = None,
        cells: Iterable[dict[str, Any]] | None = None,
        rejects: Iterable[str] = (),
        group: tuple[Any, ...] = (),
        **counted: Any,
    ) -> None:
        """One batch; changes as `enter` and `leave` make them."""
        by = dict(zip(self.query.by, group, strict=True))
        rows = [{"time": time, **by, **self._named(row)} for row in changes]
        for row in rows:
            key = (*group, row[self.query.id], row[self.query.arrived])
            (self.members.discard if row["change"] == "leave" else self.members.add)(key)
        counts = {**dict.fromkeys(COUNTERS, 0), "rows": 10, "incomplete": 3, "live": 20, "answer": len(self.members)}
        health = {"batch": self.number, "seconds": 0.5, **by, "time": time, **counts, "clipped": 0.0, "scores": None}
        kinds = [("batch", pa.int64()), ("seconds", pa.float64()), *zip(self.query.by, self.kinds.by, strict=True)]
        kinds += [("time", self.kinds.time), *((name, pa.int64()) for name in COUNTERS), ("clipped", pa.float64())]
        parts = {"health": pa.Table.from_pylist([{**health, **counted}], pa.schema([*kinds, ("scores", pa.string())]))}
        if rows:
            schema = change_schema(self.query, self.kinds)
            schema = schema.append(pa.field("why", pa.string())) if self.output.config.explain else schema
            parts["changes"] = pa.Table.from_pylist(rows, schema)
        if rejects:
            parts["rejects"] = pa.table({"row": ["{}" for _ in rejects], "reason": list(rejects)})
        views = {}
        if near is not None:
            views["near"] = self._view(
                "near", near_schema(self.query, self.kinds), [{**by, "time": time, **self._named(row)} for row in near]
            )
        if cells is not None:
            ranked = [{**by, "time": time, "rank": k, **self._named(row)} for k, row in enumerate(cells)]
            views["next"] = self._view("next", next_schema(self.query, self.kinds), ranked)
        self.output.folder.put_views(self.number, views)
        self.output.folder.write(self.number, parts)
        self.number += 1

    def _named(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row whose id and time are called as the query calls them."""
        return {self.query.id: row["id"], self.query.arrived: row.get("t"), **row}

    def _view(self, kind: str, schema: pa.Schema, rows: list[dict[str, Any]]) -> Reported:
        return Reported(self.output.place, kind, self.number, pa.Table.from_pylist(rows, schema), [])


def enter(id: Any, arrived: Any, probability: float, change: str = "enter", **values: float | None) -> dict[str, Any]:
    """A row enters, or is updated."""
    why = json.dumps(why_of(id, arrived, probability))
    exact = {"probability_error": 0.0, "why": why}
    return {"id": id, "t": arrived, "change": change, "probability": probability, **exact, **values}


def leave(id: Any, arrived: Any, reason: str = "expired", **values: float | None) -> dict[str, Any]:
    """A row leaves."""
    return {"id": id, "t": arrived, "change": "leave", "reason": reason, **values}


def near(
    id: Any, arrived: Any, probability: float, inside: bool, **cells: tuple[float | None, float, float]
) -> dict[str, Any]:
    """A row near the answer; of each attribute its value, and the ends of its range."""
    front = "possible" if not inside else "certain" if probability == 1 else "likely"
    row = {
        "id": id,
        "t": arrived,
        "inside": inside,
        "certainty": front,
        "probability": probability,
        "probability_error": 0.0,
    }
    for name, (value, low, high) in cells.items():
        row |= {name: value, f"{name}.low": low, f"{name}.high": high, f"{name}.mean": (low + high) / 2}
    return {**row, "why": json.dumps(why_of(id, arrived, probability))}


def cell(id: Any, arrived: Any, attribute: str, changes: float, low: float, high: float) -> dict[str, Any]:
    """A cell to be measured."""
    sentence = f"Measure {attribute} of {id}: {changes:g} rows are expected to enter or leave."
    about = {"id": id, "t": arrived, "attribute": attribute, "changes": changes, "low": low, "high": high}
    return {**about, "mean": (low + high) / 2, "sentence": sentence}


def why_of(id: Any, arrived: Any, probability: float) -> dict[str, Any]:
    """An explanation, as the column `why` has it."""
    other = {"id": "rival [/x]", "arrived": str(arrived), "probability": 0.25}
    flip = {
        "id": id,
        "arrived": str(arrived),
        "attribute": "heat",
        "value": 7.5,
        "side": "<=",
        "missing": True,
        "to": False,
    }
    imputed = {
        "attribute": "heat",
        "low": 5.0,
        "high": 9.0,
        "mean": 7.0,
        "imputer": "rules",
        "rule": "air(1) -> heat(2)",
    }
    return {
        "id": id, "arrived": str(arrived), "by": [], "inside": True, "certainty": "likely", "probability": probability,
        "probability_error": 0.0, "approximate": False, "reason": "",
        "sentence": f"{id} is in since no row surely beats it.",
        "beaten_by": [other],
        "imputed": [{**imputed, "rows": 12}], "flips": [{**flip, "probability": 0.4, "chance": 0.5, "own": True}],
        "decisive": {"id": id, "arrived": str(arrived), "attribute": "heat", "moves": 0.3, "own": True},
    }  # fmt: skip


def small(path: Path, **options: Any) -> Writer:
    """Three batches: two members, one of them with a gap and a hostile id, and one that has left."""
    run = Writer(path, **options)
    first = [enter("a", 1, 1.0, heat=30.0, air=20.0), enter(HOSTILE, 1, 0.75, heat=None, air=19.0)]
    run.batch(
        1,
        first,
        [near("a", 1, 1.0, True, heat=(30.0, 30.0, 30.0), air=(20.0, 20.0, 20.0))],
        [],
        ["'t' is 'x', which is not a number"],
        rejected=1,
    )
    run.batch(2, [enter("b", 2, 0.6, heat=25.0, air=18.0)], late=2)
    run.batch(
        3,
        [leave("b", 2, heat=25.0, air=18.0)],
        [
            near("a", 1, 1.0, True, heat=(30.0, 30.0, 30.0), air=(20.0, 20.0, 20.0)),
            near(HOSTILE, 1, 0.75, True, heat=(None, 20.0, 34.0), air=(19.0, 19.0, 19.0)),
            near("c", 3, 0.2, False, heat=(24.0, 24.0, 24.0), air=(None, 19.0, 21.0)),
        ],
        [cell(HOSTILE, 1, "heat", 1.5, 20.0, 34.0), cell("c", 3, "air", 0.25, 19.0, 21.0)],
    )
    return run
