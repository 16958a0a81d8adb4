"""How is a stream run: through a monitor, the embedded engine's stages, Spark's stages without a JVM?"""

from __future__ import annotations

import itertools
import json
import warnings
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fogline as fl
from fogline.output.folder import LocalFolder
from fogline.pipeline.names import CHANGES, HEALTH, REJECTS
from fogline.pipeline.plans import plans_of
from fogline.queries import Queries
from fogline.runs.config import EMBEDDED, RunConfig
from fogline.runs.embedded import Embedded
from fogline.runs.embedded_state import EmbeddedState
from fogline.runs.evaluation import Evaluation
from tests.contracts import DISTRIBUTION
from tests.flow.driving import Engine, ShardEngine, rows_of
from tests.fuzz.judging import Difference, Judge, plain, settled
from tests.fuzz.streams import NUMBER, Row, Stream, imputing, own_imputer, repository
from tests.reference import MonitorTruth, PipelineTruth, Question


@cache
def query_of(fields: str) -> fl.Query:
    return fl.Query(**json.loads(fields))


def query(stream: Stream, **more: Any) -> fl.Query:
    return query_of(json.dumps({**stream.query, **more}))


def known(stream: Stream) -> fl.Repository | None:
    return repository(stream.repository, len(stream.query["attributes"]), tuple(stream.query["by"]))


def table(stream: Stream, rows: list[Row]) -> pa.Table:
    """Rows as Arrow."""
    return pa.table([_column([row.get(f.name) for row in rows], f.type) for f in schema(stream)], schema=schema(stream))


def schema(stream: Stream) -> pa.Schema:
    asked, odd = stream.query, stream.keys == "odd"
    floats = {name: odd and any(isinstance(row.get(name), float) for row in stream.rows) for name in ("id", "g")}
    columns = [(name, pa.float64() if floats[name] else pa.string()) for name in ("id", *asked["by"])]
    columns += [("t", pa.int64())]
    columns += [("e", pa.int64())] if "expires" in asked else []
    columns += [("v", pa.int64())] if "version" in asked else []
    columns += [("gone", pa.bool_())] if "gone" in asked else []
    kind = {"whole": pa.int64(), "decimals": pa.decimal128(38, 20)}.get(stream.numbers, pa.float64())
    columns += [(a, DISTRIBUTION if stream.wide else kind) for a in asked["attributes"]]
    return pa.schema([*columns, (NUMBER, pa.int64())])


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind == DISTRIBUTION:
        pairs = [None if _none(v) else v if isinstance(v, list) else [(v, 1)] for v in values]
        return pa.array([None if v is None else [{"value": a, "weight": w} for a, w in v] for v in pairs], kind)
    if kind == pa.float64():
        return pa.array([None if v is None else float(v) for v in values], kind)
    if pa.types.is_int64(kind) or pa.types.is_decimal(kind):
        return pa.array([None if _none(v) else v for v in values], kind)
    return pa.array(values, kind)


def _none(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


# --- A monitor --------------------------------------------------------------------------------------------------------


def run_monitor(stream: Stream) -> None:
    """The stream through a Monitor, held to the reference; what differs is raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fl.RowsRejectedWarning)  # where there is no repository
        _run_monitor(stream)


def _run_monitor(stream: Stream) -> None:
    def make(some: Stream) -> Any:
        return lambda: MonitorTruth(some.question, imputing(some))

    stream, reports = settled(stream, make, monitor=True)
    asked, judge = query(stream), Judge(stream, "monitor", stream.query["by"])
    own = own_imputer(stream)
    how: dict[str, Any] = {"imputer": own, "remember": stream.remember}
    monitor = fl.Monitor(asked, known(stream), eager=stream.eager, **how)
    for call, ((now, rows), report) in enumerate(zip(stream.calls, reports, strict=True)):
        given: Any = table(stream, rows) if stream.tables else [dict(row) for row in rows]
        if own is not None and call in stream.raises:
            _raise_once(monitor, how, now, given, call not in stream.ends)
        before = monitor.counts["rejected"]
        try:
            changes = monitor.advance(now, given, every="tick" if call not in stream.ends else "batch")
        except fl.FoglineError as error:
            raise Difference("monitor error", f"call {call}: {error}") from error
        except Exception as error:
            raise Difference(f"monitor {type(error).__name__}", f"call {call}: {error}") from error
        judge.hold(call, report, changes.to_pylist(), ticks=call not in stream.ends)
        count = monitor.counts["rejected"] - before
        rejects = [(dict(each.row), each.reason) for each in list(monitor.rejects)[len(monitor.rejects) - count :]]
        judge.rejects(call, report, rejects, {row[NUMBER]: row for row in rows})
        judge.compare(_answer(monitor, stream), f"call {call}, the answer at its end")
        if call in stream.restored:
            monitor = fl.Monitor.restore(asked, monitor.snapshot(), known(stream), **how)
    stats = monitor.stats()
    counted = {"rows": stats["rows"], "rejected": stats["rejected"], "late": stats["late"]}
    counted |= {"stale": stats["stale"]} if asked.latest else {}
    counted |= {} if asked.latest or stream.ends or asked.last else {"expired": stats["expired_on_arrival"]}
    judge.counted(counted)


def run_disturbed(stream: Stream) -> None:
    """The stream through two monitors with a repository that knows more than the reference, with hindsight: of one the
    user's imputer raises now and then, and it is saved and restored. Both report the same."""
    if not stream.own or stream.query.get("latest") or stream.keys != "texts" or stream.numbers:
        return
    stream = replace(stream, repository="learnt", query={**stream.query, "max_sensors": 100_000})
    asked, calm, own = query(stream), own_imputer(stream), own_imputer(stream)
    plain, monitor = (fl.Monitor(asked, known(stream), imputer=each, eager=stream.eager) for each in (calm, own))
    for call, (now, rows) in enumerate(stream.calls):
        given: Any = table(stream, rows) if stream.tables else [dict(row) for row in rows]
        ticks = call not in stream.ends
        if own is not None and call in stream.raises:
            _raise_once(monitor, {"imputer": own}, now, given, ticks)
        expected, found = (each.advance(now, given, every="tick" if ticks else "batch") for each in (plain, monitor))
        if not found.equals(expected) or plain.stats() != monitor.stats():
            several = {name: (n, monitor.stats()[name]) for name, n in plain.stats().items()}
            counts = {name: both for name, both in several.items() if both[0] != both[1]}
            text = f"call {call}: reported {found.to_pylist()}, undisturbed {expected.to_pylist()}; counts {counts}"
            raise Difference("disturbed answer", text)
        if call in stream.restored:
            monitor = fl.Monitor.restore(asked, monitor.snapshot(), known(stream), imputer=own)


def _raise_once(monitor: fl.Monitor, how: dict[str, Any], now: int, given: Any, ticks: bool) -> None:
    """The user's imputer raises in its midst, if it is asked at all: nothing has happened then."""
    own = how["imputer"]
    own.armed = True
    before = monitor.snapshot()
    try:
        own_asked = False
        monitor.advance(now, given, every="tick" if ticks else "batch")
    except ValueError:
        own_asked = True
    except fl.FoglineError:
        pass
    except Exception as error:
        raise Difference(f"monitor {type(error).__name__}", f"a call that is repeated: {error}") from error
    own.armed = False
    if not own_asked:  # it went through: back to where it was
        again = fl.Monitor.restore(monitor.query, before, monitor.repository, **how)
        again.rejects = monitor.rejects
        monitor.__dict__.update(again.__dict__)


def _answer(monitor: fl.Monitor, stream: Stream) -> dict[Any, dict[Any, float]]:
    out: dict[Any, dict[Any, float]] = {}
    for row in monitor.answer().to_pylist():
        group = tuple(plain(row[column]) for column in stream.query["by"])
        out.setdefault(group, {})[plain(row["id"]), row["t"]] = row["probability"]
    return out


# --- A pipeline -------------------------------------------------------------------------------------------------------

ALL = 10**9  # no chunk is as large as that: all rows travel
COUNTED = ("rows", "rejected", "late", "stale", "expired", "held", "released")


class Memory(EmbeddedState):
    """The state of the embedded engine, without a disk."""

    def __init__(self) -> None:
        super().__init__(LocalFolder("/nowhere"))  # nothing is committed: all of it stays in memory


def run_embedded(stream: Stream) -> None:
    """The stream through the embedded engine's stages, held to the reference."""
    if stream.idle:  # what silent groups report comes with later batches
        stream = replace(stream, calls=[*stream.calls, *([(stream.calls[-1][0], [])] * 3)])

    def start(plan: Any) -> Any:
        engine = Evaluation(plan, Memory())
        return lambda rows: [part for journal in engine.take(rows.to_batches(), 0) for part in journal]

    _run_pipeline(stream, "embedded", start)


def run_stages(stream: Stream) -> None:
    """The stream through the stages as Spark calls them. (There silent groups follow where a slice has two ids.)"""
    stream = replace(stream, idle=0)

    def start(plan: Any) -> Any:
        kind = ShardEngine if stream.shelved and stream.query["by"] else Engine
        engine = kind(plan, slice_rows=3, chunk_rows=5, small=ALL)
        cut = stream.parts
        return lambda rows: engine.batch(
            [rows.take(pa.array(range(k, rows.num_rows, cut), pa.int64())) for k in range(cut)]
        )

    _run_pipeline(stream, "stages", start)


class _Sink:
    """Keeps batches; it raises at some, once, before it takes them or afterwards."""

    def __init__(self) -> None:
        self.taken: dict[int, dict[str, list[Row]]] = {}
        self.raises = ""

    def put(self, number: int, *parts: Any) -> None:
        raises, self.raises = self.raises, ""
        if raises == "before":
            raise ConnectionError("the sink is away")
        kinds = zip((CHANGES, REJECTS, HEALTH), parts, strict=True)
        found = {kind: [row for each in part for row in each.to_pylist()] for kind, part in kinds}
        if number in self.taken and found[CHANGES] != self.taken[number][CHANGES]:
            raise Difference("files again", f"batch {number} was {self.taken[number]}, and then {found}")
        self.taken[number] = found
        if raises == "after":
            raise ConnectionError("the sink has the batch, and is away")


def run_files(stream: Stream) -> None:
    """The stream as files, one a batch, through the embedded engine into a folder and a sink, held to the reference.

    It is started again for every file; and when its sink has raised, perhaps after it was called on."""
    with TemporaryDirectory(prefix="fogline-fuzz-") as root:
        _run_pipeline(replace(stream, own="", others=(), idle=0), "files", partial(_files, stream, Path(root)))


def _files(stream: Stream, root: Path, plan: Any) -> Any:
    sink, count = _Sink(), itertools.count()
    (root / "in").mkdir()
    how: dict[str, Any] = {"every": stream.every, "lateness": stream.lateness, "ahead": stream.ahead or "off"}
    where = str(root / "in"), str(root / "out"), query(_unbound(stream)), known(stream)
    config = RunConfig(*where, **how, engine=EMBEDDED, sinks=(sink,))
    disturbed = set(stream.ends) | set(stream.restored)

    def batch(rows: pa.Table) -> Any:
        number = next(count)
        pq.write_table(rows, root / "in" / f"{number:04}.parquet")
        sink.raises = "" if number not in disturbed else "after" if number in stream.restored else "before"
        if not any(_ran(config, called_on=number % 2 == 1) for _ in range(3)):  # the sink raises once
            raise Difference("files error", f"batch {number} cannot be done")
        return [(kind, pa.Table.from_pylist(some)) for kind, some in sink.taken.get(number, {}).items() if some]

    return batch


def _ran(config: RunConfig, *, called_on: bool) -> bool:
    """A start, until all files are read; False: it failed."""
    running = Embedded(config)
    begun = running.start(files_per_batch=1)
    try:
        return begun.awaitTermination()
    except fl.FoglineError:
        if called_on:  # it does nothing more, and states so
            with suppress(fl.FoglineError):
                begun.awaitTermination()
        return False
    finally:
        running.close()


def _unbound(stream: Stream) -> Stream:
    """Without a bound of sensors: on a pipeline it is one of each bucket."""
    return replace(stream, query={k: v for k, v in stream.query.items() if k != "max_sensors"})


def _run_pipeline(stream: Stream, who: str, start: Any) -> None:
    if not stream.typed:
        return
    stream = _unbound(stream)
    asked: dict[str, dict[str, Any]] = {"first" if stream.others else "": {}}
    asked |= {f"q{k}": more for k, more in enumerate(stream.others)}
    for more in asked.values():  # one stream for all, without what any of them leaves open
        stream, _ = settled(stream, partial(_truths, more), monitor=False)
    truths = {name: settled(stream, partial(_truths, more), monitor=False)[1] for name, more in asked.items()}
    judges = {name: Judge(stream, who, stream.query["by"]) for name in asked}
    batch = start(_plan(stream, asked))
    counts = {name: dict.fromkeys(COUNTED, 0) for name in asked}
    numbered = {row[NUMBER]: row for row in stream.rows}
    for call, (_, rows) in enumerate(stream.calls):
        if not rows and not stream.idle:
            continue
        try:
            journal = batch(table(stream, rows))
        except Exception as error:
            raise Difference(f"{who} {type(error).__name__}", f"batch {call}: {error}") from error
        kinds = {kind: rows_of(journal, kind) for kind in (CHANGES, REJECTS, HEALTH)}
        for name, judge in judges.items():
            own = {kind: [row for row in some if row.get("query", "") == name] for kind, some in kinds.items()}
            report = truths[name][call]
            _in_order(judge, call, own[CHANGES])
            judge.hold(call, report, own[CHANGES], ticks=stream.every == "tick", ordered=False)
            rejects = [(json.loads(row["row"]), row["reason"]) for row in own[REJECTS]]
            judge.held(call, report, [row for row, reason in rejects if reason.startswith("held:")], numbered)
            rejects = [(row, reason) for row, reason in rejects if not reason.startswith("held:")]
            if stream.lateness:  # copies that wait are rejected as they come, or when they are due
                judge.later(report, rejects)
            else:
                judge.rejects(call, report, rejects, numbered)
            for each in own[HEALTH]:
                counts[name] = {k: v + each.get(k, 0) for k, v in counts[name].items()}
    for name, judge in judges.items():
        judge.rejects(len(stream.calls), judge.all, judge.given, numbered)
        if stream.every == "batch" or "last" in stream.query or stream.query.get("latest"):
            judge.loose.add("expired")
        judge.counts["expired"] = judge.counts["late and expired"]
        judge.counted(
            counts[name] if stream.query.get("latest") else {k: v for k, v in counts[name].items() if k != "stale"}
        )


def _in_order(judge: Judge, call: int, changes: list[Row]) -> None:
    times: dict[Any, list[Any]] = {}
    for row in changes:
        times.setdefault(judge.group(row), []).append(row["time"])
    for group, some in times.items():
        if some != sorted(some):
            judge.fail("order", f"batch {call}, group {group}: changes at {some}")


def _truths(more: dict[str, Any], stream: Stream) -> Any:
    return partial(_truth, stream, more)


def _truth(stream: Stream, more: dict[str, Any]) -> PipelineTruth:
    question = Question(**{**stream.query, **more})
    where = stream.lateness, stream.ahead or None, stream.idle or None
    return PipelineTruth(question, imputing(stream, pipeline=True), *where)


def _plan(stream: Stream, asked: dict[str, dict[str, Any]]) -> Any:
    queries = {name: query(stream, **more) for name, more in asked.items()}
    how: dict[str, Any] = {"every": stream.every, "lateness": stream.lateness, "ahead": stream.ahead or "off"}
    how |= {"idle": stream.idle} if stream.idle else {}
    if (found := known(stream)) is not None:
        how["opened"] = lambda: found
    if stream.own:
        how["imputer"] = own_imputer(stream)
    return plans_of(queries[""] if len(queries) == 1 else Queries(queries), schema(stream), **how)
