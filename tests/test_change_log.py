"""Does a change log (insert, update, delete) give the skyline of the table that it describes?

After each batch the answer is held to a plain recomputation: the table is kept in a dict, as a database would, and what
is on top of it is found anew. Real sets are looked for in the folder that FOGLINE_DATA names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fogline as fl
from tests.real_sets import real_sets
from tests.walks import walks

BATCH, DELETES = 80, 0.1


def made_up() -> tuple[pa.Table, dict[str, str]]:
    rows = walks(sensors=12, steps=150, gaps=0.1)
    return rows.rename_columns(["id", "time", "heat", "damp", "light"]), {"heat": "max", "damp": "min", "light": "max"}


def room_climate() -> tuple[pa.Table, dict[str, str]]:
    rows = real("room_climate")
    rows = rows.take(pa.array(np.arange(0, rows.num_rows, 200)))
    id = pc.binary_join_element_wise(rows["location"].cast(pa.string()), pc.cast(rows["node_id"], pa.string()), "-")
    return named(rows, id), {"temperature": "max", "humidity": "max", "light1": "min"}


def beijing_air() -> tuple[pa.Table, dict[str, str]]:
    rows = real("beijing_air").slice(0, 2_500)
    hour = pc.cast(pc.hour(rows["timestamp"]), pa.string())
    return named(rows, pc.binary_join_element_wise(rows["station"].cast(pa.string()), hour, "-")), {
        "pm25": "max", "pm10": "max", "no2": "max", "o3": "max",
    }  # fmt: skip


def real(name: str) -> pa.Table:
    return pq.read_table(real_sets() / f"{name}.parquet")


def named(rows: pa.Table, id: Any) -> pa.Table:
    return rows.append_column("id", id.cast(pa.string())).rename_columns(
        ["time" if name == "timestamp" else name for name in [*rows.schema.names, "id"]]
    )


def logged(rows: pa.Table, attributes: dict[str, str], seed: int = 5) -> pa.Table:
    """The rows as a log: an id is inserted, updated, now and then deleted, and inserted again."""
    rng = np.random.default_rng(seed)
    there: set[str] = set()
    out: dict[str, list[Any]] = {name: [] for name in ("id", "time", "lsn", "op", *attributes)}
    for lsn, row in enumerate(rows.select(["id", "time", *attributes]).to_pylist()):
        deleted = row["id"] in there and rng.random() < DELETES
        op = "d" if deleted else "u" if row["id"] in there else "c"
        (there.discard if deleted else there.add)(row["id"])
        values = dict.fromkeys(attributes) if deleted else {name: row[name] for name in attributes}
        for name, value in {**row, **values, "lsn": lsn, "op": op}.items():
            out[name].append(value)
    kinds = {name: pa.float64() for name in attributes}
    return pa.table({name: pa.array(column, kinds.get(name)) for name, column in out.items()})


@pytest.mark.parametrize("source", [made_up, room_climate, beijing_air])
def test_the_answer_after_each_batch_is_that_of_the_table_a_change_log_describes(source):
    rows, attributes = source()
    log = logged(rows, attributes)
    asked: dict[str, Any] = {"attributes": attributes, "id": "id", "time": "time"}
    query = fl.Query(**asked, latest=True, gone={"op": ["d"]}, version="lsn")
    complete = rows.select(list(attributes)).drop_null()
    repository = fl.Repository.fit(complete.slice(0, 500), query, rules=[], retention=0)
    monitor = fl.Monitor(query, repository)
    table: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for begin in range(0, log.num_rows, BATCH):
        batch = log.slice(begin, BATCH)
        monitor.advance(pc.max(batch["time"]), batch)
        for row in batch.to_pylist():
            table.pop(row["id"], None)
            if row["op"] != "d":
                table[row["id"]] = row
        known = pa.Table.from_pylist(list(table.values()), schema=log.schema)
        true = fl.skyline(known, fl.Query(**asked, last=1), repository).to_pylist()
        given = {row["id"]: row for row in monitor.answer().to_pylist()}
        assert given.keys() == {row["id"] for row in true}
        for row in true:
            assert abs(given[row["id"]]["probability"] - row["probability"]) < 1e-9
            assert {name: given[row["id"]][name] for name in attributes} == {name: row[name] for name in attributes}
        seen |= given.keys()
    monitor.check()
    stats = monitor.stats()
    assert (stats["rejected"], stats["stale"], stats["live"]) == (0, 0, len(table))
    assert stats["removed"] == pc.sum(pc.equal(log["op"], "d")).as_py() > 20
    assert len(seen) > 5
