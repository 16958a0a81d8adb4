"""How is a stream run by an engine, and under which names are its answers kept?

The only file of the net that knows what Fogline calls things: a renamed column, option or counter is changed in the
tables here. All goes through the public face, but for a run that follows its files (`followed`).
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import random
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fogline as fl
from fogline.engine import bulk, live
from tests.net.streams import NAMES, Row, Stream

Record = dict[str, Any]  # sections of what an engine reported: see `monitor`, `run`, `table`
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
PAIRS = pa.list_(pa.struct([("value", pa.float64()), ("weight", pa.float64())]))

# --- Names: what the net calls it -> what Fogline calls it ------------------------------------------------------------

# Streams of the net have the columns `id` and `t`, and these are what outputs call a row's id and its own time.


def exact(row: Mapping[str, Any]) -> bool | None:
    """What was a column of its own, and is now an error of 0."""
    error = row.get("probability_error")
    return None if error is None else error == 0


def of_itself(name: str) -> Callable[[Mapping[str, Any]], Any]:
    """By what a row was beaten; what beats the row that took its place was not reported when the net was recorded."""
    return lambda row: None if row.get("reason") == "replaced" else row.get(name)


Names = Mapping[str, str | Callable[[Mapping[str, Any]], Any]]
CHANGES: Names = {
    "time": "time", "id": "id", "arrived": "t", "change": "change", "probability": "probability",
    "exact": exact, "error": "probability_error", "reason": "reason", "dominator": of_itself("beaten_by"),
    "dominator arrived": of_itself("beaten_by_time"),
}  # fmt: skip
ANSWER: Names = {
    "id": "id", "arrived": "t", "probability": "probability", "exact": exact, "error": "probability_error",
    "front": "certainty", "stands for": "stands_for",
}  # fmt: skip
EXPLANATION = {
    "id": "id", "arrived": "arrived", "by": "by", "inside": "inside", "front": "certainty",
    "probability": "probability", "error": "probability_error", "approximate": "approximate",
    "dominators": "beaten_by", "imputed": "imputed", "outside": "outside", "flips": "flips", "decisive": "decisive",
}  # fmt: skip
QUESTIONS: Names = {
    "id": "id", "arrived": "t", "attribute": "attribute", "changes": "changes", "low": "low", "high": "high",
    "mean": "mean",
}  # fmt: skip
IMPUTED: Names = {
    "id": "id", "time": "t", "attribute": "attribute", "value": "value", "probability": "probability",
    "rule": "rule",
}  # fmt: skip
NEAR: Names = {
    "time": "time", "id": "id", "arrived": "t", "inside": "inside", "front": "certainty",
    "probability": "probability", "error": "probability_error",
}  # fmt: skip
TABLE: Names = {"row": "row", "probability": "probability", "exact": exact, "error": "probability_error",
                "front": "certainty", "stands for": "stands_for"}  # fmt: skip
MONITOR = {"places": "exact_limit"}  # what streams state of a monitor, where that is called otherwise now
NODE = {"by": "by", "id": "id", "arrived": "arrived", "layer": "layer", "parent": "parent", "shadow": "shadow"}
COUNTED = {  # of `Monitor.stats`
    "rows": "rows", "rejected": "rejected", "outside limits": "outside_limits", "incomplete": "incomplete",
    "late": "late", "expired on arrival": "expired_on_arrival", "stale": "stale", "removed": "removed",
    "markers": "markers", "groups": "groups", "live": "live", "answer": "answer", "shadows": "shadows",
    "inexact": "inexact", "undecided": "undecided", "forgotten": "forgotten", "pruned, spatial": "pruned_spatial",
    "pruned, max corner": "pruned_max_corner", "pruned, min corner": "pruned_min_corner",
    "pruned, guard": "pruned_guard", "pruned, joint": "pruned_joint", "evaluations": "evaluations",
    "imputed": "imputed", "revised": "revised", "revised cells": "revised_cells", "clipped": "clipped",
    "unwatched": "unwatched", "sensors": "sensors", "sensors forgotten": "sensors_forgotten", "scored": "scored",
    "doubtful": "doubtful", "wrongly sure": "wrongly_sure",
}  # fmt: skip
SUMMED = {  # of the health of batches
    "rows": "rows", "rejected": "rejected", "held": "held", "released": "released", "late": "late",
    "expired": "expired", "stale": "stale", "outside limits": "outside_limits", "incomplete": "incomplete",
    "inexact": "inexact", "undecided": "undecided", "revised": "revised", "conflicts": "conflicts",
}  # fmt: skip
LEAVES = {"expired": "expired", "beaten": "dominated", "less likely": "less likely", "replaced": "replaced",
          "removed": "removed", "begun anew": "begun anew", None: None}  # fmt: skip
REJECTS = {  # kinds of reasons, by what their texts hold; the first that is found counts
    "held": "^held:", "ran ahead": "runs ahead of its group", "copy": "is there already",
    "later than now": "later than now", "gap": ", and the(re is no)? repository|nothing fills",
    "unit limit": "outside its limits", "id": "the id |which can name nothing", "kind": "one kind of value there",
    "time": r"the time |'t' is", "expiry": "the expiry |'e' is|expires", "version": "the version ",
    "removal": "it is unknown whether the row removes",
    "value": "is missing or not finite|weight that is not positive|not a number|float64 cannot hold|2\\^53|pair",
}  # fmt: skip


# --- Plain values -----------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """As JSON holds it; NaN as a text, so that it equals itself."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def section(rows: Iterable[Mapping[str, Any]], names: Names, **more: Sequence[str]) -> Record:
    """Rows under the net's names; `more`: columns that are put together into one list."""
    found = []
    for row in rows:
        one = [plain(row.get(public) if isinstance(public, str) else public(row)) for public in names.values()]
        found.append(one + [[plain(row.get(name)) for name in some] for some in more.values()])
    return {"columns": [*names, *more], "rows": found}


def changes_section(rows: Iterable[Mapping[str, Any]], stream: Stream, *, pipeline: bool = False) -> Record:
    """Changes; of a pipeline in the order of query and group within each batch, for between groups there is none."""
    found = [dict(row) for row in rows]
    for row in found:
        row["reason"] = LEAVES[row.get("reason")]
        if row.get("why") is not None:
            row["why"] = explanation(json.loads(row["why"]))
    names, by = dict(CHANGES), columns_of(stream, "by")
    if not pipeline:
        names = {"call": "call", **names}
    else:
        names = {"query": "query", "batch": "batch", **names}
        names |= {"why": "why"} if stream.how.get("explain") else {}
        found.sort(key=lambda row: (row["batch"] or 0, row.get("query") or "", [str(row.get(name)) for name in by]))
    return section(found, names, by=by, values=tuple(stream.attributes))


def columns_of(stream: Stream, field: str) -> tuple[str, ...]:
    """The columns that any query names there."""
    return tuple(dict.fromkeys(name for query in stream.queries.values() for name in query.get(field, ())))


def rejects_section(found: Iterable[tuple[Mapping[str, Any], str, str]]) -> Record:
    """Rejected rows, with the kind of the reason: (row, reason, query). Some have no number any more."""
    rows = []
    for row, reason, query in found:
        names = [None if row.get(name) is None else str(plain(row[name])) for name in ("id", "g", "t")]
        rows.append([query, plain(row.get("n")), *names, kind_of(reason)])
    rows.sort(key=lambda row: [str(each) for each in row])
    return {"columns": ["query", "row", "id", "group", "time", "kind"], "rows": rows}


def kind_of(reason: str) -> str:
    """What kind of reason a text states."""
    for kind, pattern in REJECTS.items():
        if re.search(pattern, reason):
            return kind
    raise ValueError(f"what kind of reason is {reason!r}? Add it to REJECTS in tests/net/driving.py.")


def explanation(found: Mapping[str, Any]) -> dict[str, Any]:
    """An explanation without its sentences."""
    return {name: plain(found[public]) for name, public in EXPLANATION.items()}


# --- What a stream needs ----------------------------------------------------------------------------------------------


def queries_of(stream: Stream) -> dict[str, fl.Query]:
    return {name: fl.Query.from_dict(query) for name, query in stream.queries.items()}


def instant(stream: Stream, t: int) -> Any:
    return EPOCH + timedelta(seconds=t) if stream.stamps else t


def table_of(stream: Stream, rows: Sequence[Row]) -> pa.Table:
    """Rows as Arrow."""
    clock = pa.timestamp("us", "UTC") if stream.stamps else pa.int64()
    kinds = {"n": pa.int64(), "id": pa.string(), "g": pa.string(), "t": clock, "e": clock, "v": pa.int64()}
    kinds |= {"gone": pa.bool_()} | dict.fromkeys(NAMES, PAIRS if stream.wide else pa.float64())
    names = [name for name in kinds if any(name in row for row in stream.rows)]
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if name in ("t", "e"):
            values = [None if v is None else instant(stream, v) for v in values]
        if name in NAMES and stream.wide:
            pairs = [None if v is None else v if isinstance(v, list) else [[v, 1.0]] for v in values]
            values = [None if v is None else [{"value": a, "weight": w} for a, w in v] for v in pairs]
        columns[name] = pa.array(values, kinds[name])
    return pa.table(columns)


def given(stream: Stream, rows: Sequence[Row]) -> Any:
    """Rows as a caller would bring them."""
    if stream.tables == "dicts":
        cells = [{k: [tuple(p) for p in v] if isinstance(v, list) and k in NAMES else v for k, v in row.items()}
                 for row in rows]  # fmt: skip
        times = [{k: instant(stream, row[k]) for k in ("t", "e") if stream.stamps and row.get(k) is not None}
                 for row in rows]  # fmt: skip
        return [row | more for row, more in zip(cells, times, strict=True)]
    found = table_of(stream, rows)
    return found.to_pandas() if stream.tables == "pandas" else found


STEPS = {"whole": 1, "last": 1}  # so few that the reference can follow
RULES = ["a1(0.5) -> a0(2)", "a0(0.5), a1(1) -> a2(3)", "a0(0.5) -> a1(2)", "a0(1) -> a2(4)"]


def history(d: int, steps: int = 80) -> pa.Table:
    """Six sensors whose second attribute follows the first, and whose third moves now and then."""
    r = random.Random("net/history")
    at = [[r.uniform(0, 10), 0.0, r.uniform(0, 10)] for _ in range(6)]
    rows = []
    for step in range(steps):
        for k, values in enumerate(at):
            values[0] = min(10.0, max(0.0, values[0] + r.choice((-1.0, -0.3, 0.0, 0.3, 1.0))))
            values[1] = min(10.0, max(0.0, 10 - values[0] + r.choice((-0.4, 0.0, 0.4))))
            values[2] = values[2] if r.random() < 0.8 else r.uniform(0, 10)
            cells = {name: round(value, 1) for name, value in zip(NAMES[:d], values, strict=False)}
            rows.append({"id": f"h{k}", "g": "h", "t": step - 1000, **cells})
    return pa.Table.from_pylist(rows)


@cache
def fitted(kind: str, d: int, by: tuple[str, ...]) -> fl.Repository:
    """A repository of one kind."""
    query = fl.Query(attributes=dict.fromkeys(NAMES[:d], "max"), id="id", time="t", lifetime=1, by=list(by))
    rules = [rule for rule in RULES if all(name in NAMES[:d] for name in re.findall(r"a\d", rule))]
    how: dict[str, dict[str, Any]] = {
        "whole": {"rules": [], "retention": 0}, "given": {"rules": rules, "retention": 0},
        "discovered": {"retention": 0}, "paper": {"method": "paper", "retention": 0}, "sensors": {"hindsight": False},
        "fitted": {}, "last": {"method": "last"}, "mean": {"method": "mean"}, "others": {"method": "others"},
    }  # fmt: skip
    return fl.Repository.fit(history(d, STEPS.get(kind, 80)), query, **how[kind])


@cache
def saved(kind: str, d: int, by: tuple[str, ...]) -> str:
    """The same in a folder."""
    folder = mkdtemp(prefix="fogline-net-repository-", dir=scratch())
    fitted(kind, d, by).save(folder + "/repo")
    return folder + "/repo"


def sort_of(stream: Stream) -> tuple[str, int, tuple[str, ...]]:
    return stream.repository, len(stream.attributes), tuple(stream.first.get("by", ()))


def repository_of(stream: Stream) -> fl.Repository | None:
    return fitted(*sort_of(stream)) if stream.repository else None


def by_time(rows: pa.RecordBatch) -> dict[str, Any]:
    """The user's own imputer: two values, or none, by the time alone."""
    known = [None if t is None else int(t) % 3 for t in rows.column("t").to_pylist()]
    cells: dict[Any, Any] = {0: None, 1: [(1.0, 1), (3.0, 1)], 2: 2.0}
    return {"a0": [cells.get(k) for k in known], "a1": [cells.get(2 if k is None else (k + 1) % 3) for k in known]}


def imputer_of(stream: Stream, query: fl.Query) -> Any:
    if stream.own == "knn":
        return fl.impute.knn(history(len(query.attributes)), query, k=5)
    return by_time if stream.own else None


def scratch() -> str | None:
    """Where short-lived files lie: in memory, if there is a place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


# --- A monitor --------------------------------------------------------------------------------------------------------


def monitor(stream: Stream, *, at_once: bool = False, restored: bool = False) -> Record:
    """Through `fl.Monitor`: call by call, or all rows in one call; `restored`: from its snapshot, three times."""
    (query,) = queries_of(stream).values()
    repository, how = repository_of(stream), {MONITOR.get(name, name): value for name, value in stream.monitor.items()}
    if own := imputer_of(stream, query):
        how["imputer"] = own
    again = {name: value for name, value in how.items() if name not in ("exact_limit", "eager")}
    watching = fl.Monitor(query, repository, **how)
    calls, ends = stream.calls, stream.ends
    if at_once:
        calls, ends = [(stream.calls[-1][0], stream.rows)], ()
    changes, answers, rejects, asked, few = [], [], [], [], []
    for k, (now, rows) in enumerate(calls):
        seen = watching.stats()["rejected"]
        try:
            found = watching.advance(
                instant(stream, now), given(stream, rows), every="batch" if k in ends else "tick"
            ).to_pylist()
        except fl.FoglineError as error:
            answers.append({"error": type(error).__name__})
            continue
        changes += [row | {"call": k} for row in found]
        new = watching.stats()["rejected"] - seen
        rejects += [(each.row, each.reason, "") for each in list(watching.rejects)[len(watching.rejects) - new :]]
        front = "possible" if k % 2 else "likely"
        answers.append(section(watching.answer(certainty=front).to_pylist(), ANSWER, by=query.by, values=query.names))
        if not restored and k % 3 == 0:  # those that were given last time are preferred, and snapshots do not hold that
            some = watching.answer(certainty=front, top=2).to_pylist()
            few.append(section(some, ANSWER, by=query.by))
        if stream.asked and (k == len(calls) - 1 or k % 2 == 0):
            asked.append(questions(watching, query))
        if restored and k in stream.restored:
            watching = fl.Monitor.restore(query, watching.snapshot(), repository, **again)
    record = {"changes": changes_section(changes, stream), "answers": answers, "rejects": rejects_section(rejects)}
    record |= {} if restored else {"representatives": few}
    counts = watching.stats()
    record["counts"] = {name: plain(counts.get(public)) for name, public in COUNTED.items()}
    return record | ({"asked": asked} if stream.asked else {})


def questions(watching: fl.Monitor, query: fl.Query) -> Record:
    """Explanations of a few rows, what to measure next, and the tree."""
    ids = dict.fromkeys(watching.answer(certainty="possible")["id"].to_pylist())
    nodes = watching.tree()
    ids |= dict.fromkeys(node.id for node in nodes)
    found = [each.to_dict() for name in sorted(ids)[:6] for each in watching.explain(name)]
    found.sort(key=lambda each: (str(each["id"]), str(each["by"]), str(each["arrived"])))
    tree = [[plain(getattr(node, public)) for public in NODE.values()] for node in nodes]
    return {
        "explained": [explanation(each) for each in found],
        "next": section(watching.ask_next(5).to_pylist(), QUESTIONS, by=tuple(query.by)),
        "tree": {"columns": [*NODE], "rows": sorted(tree, key=str)},
    }


# --- The command line -------------------------------------------------------------------------------------------------


def run(stream: Stream, engine: str, *, one: bool = False) -> Record:
    """Through `fogline run` over files: one a batch, or all in one."""
    from fogline.cli import app

    with TemporaryDirectory(prefix="fogline-net-", dir=scratch()) as folder:
        root = Path(folder)
        files = write_files(stream, root / "in")
        words = ["run", str(root / "in"), "--output", str(root / "out"), "--engine", engine]
        for name, query in stream.queries.items():
            path = root / f"{name or 'query'}.yaml"
            path.write_text(json.dumps(query))
            words += ["--query", f"{name}={path}" if name else str(path)]
        if stream.repository:
            words += ["--repository", saved(*sort_of(stream))]
        for name, value in stream.how.items():
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        words += ["--files-per-batch", str(len(files) if one else 1)]
        with quiet() as heard:
            try:
                app(words, standalone_mode=False)
            except SystemExit as left:
                if left.code not in (None, 0, 3):
                    return {"error": type(left).__name__, "heard": heard.getvalue()[-300:]}
            except fl.FoglineError as error:
                return {"error": type(error).__name__}
        return folder_record(stream, root / "out")


@contextlib.contextmanager
def quiet() -> Iterator[io.StringIO]:
    """What is printed is kept aside."""
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield heard


def write_files(stream: Stream, folder: Path) -> list[Path]:
    """The calls that have rows, one file each, one second after another."""
    folder.mkdir()
    found = []
    for k, (_, rows) in enumerate(stream.calls):
        if rows:
            found.append(folder / f"{k:04}.parquet")
            put_file(found[-1], table_of(stream, rows), k)
    return found


def put_file(path: Path, rows: pa.Table, k: int) -> None:
    pq.write_table(rows, path)
    os.utime(path, (1_700_000_000 + k, 1_700_000_000 + k))


def folder_record(stream: Stream, out: Path) -> Record:
    """What a run has written."""
    rejects = [(json.loads(row["row"]), row["reason"], row.get("query") or "") for row in batches(out / "rejects")]
    record: Record = {
        "changes": changes_section(batches(out / "changes"), stream, pipeline=True),
        "rejects": rejects_section(rejects),
        "counts": health(batches(out / "health")),
    }
    if stream.how.get("explain"):
        by = columns_of(stream, "by")
        rows = batches(out / "near")
        record["near"] = ordered(section(rows, {"batch": "batch", **NEAR}, by=by))
        record["next"] = ordered(section(batches(out / "next"), {"batch": "batch", **QUESTIONS}, by=by))
    return record


def ordered(found: Record) -> Record:
    return found | {"rows": sorted(found["rows"], key=str)}


def batches(folder: Path) -> list[dict[str, Any]]:
    """The rows of a folder of batches, in their order, with the number of their batch."""
    found = []
    for path in sorted(folder.glob("batch-*.parquet")) if folder.exists() else ():
        number = int(path.stem.split("-")[1])
        found += [row | {"batch": number} for row in pq.read_table(path).to_pylist()]
    return found


def health(rows: Iterable[Mapping[str, Any]]) -> Record:
    """Counters, summed over batches and groups, by query."""
    sums: dict[str, dict[str, Any]] = defaultdict(lambda: dict.fromkeys(SUMMED, 0))
    for row in rows:
        of_query = sums[row.get("query") or ""]
        for name, public in SUMMED.items():
            of_query[name] += row.get(public) or 0
    return dict(sums)


def followed(stream: Stream) -> Record:
    """Files one by one, by a run that waits for more: the clock of silent groups follows then."""
    from fogline.runs.config import EMBEDDED, RunConfig
    from fogline.runs.embedded import Embedded

    (query,) = queries_of(stream).values()
    with TemporaryDirectory(prefix="fogline-net-", dir=scratch()) as folder, quiet():
        root = Path(folder)
        (root / "in").mkdir()
        config = RunConfig(
            str(root / "in"), str(root / "out"), query, repository_of(stream), engine=EMBEDDED, **stream.how
        )
        started = None
        for k, (_, rows) in enumerate(stream.calls):
            put_file(root / "in" / f"{k:04}.parquet", table_of(stream, rows), k)
            if k % 5 == 0:  # it is started again now and then
                started = Embedded(config).start(follow=True, files_per_batch=1)
            assert started is not None
            started.awaitTermination(0)
        for _ in range(3):
            assert started is not None
            started.awaitTermination(0)
        return folder_record(stream, root / "out")


# --- Tables -----------------------------------------------------------------------------------------------------------


def table(stream: Stream) -> Record:
    """Through `fl.skyline`: by a mapping, and by a query; and `fl.impute.distributions`."""
    (query,) = queries_of(stream).values()
    rows, repository = given(stream, stream.rows), repository_of(stream)
    record: Record = {}
    more: dict[str, Any] = {"by": list(query.by), "alpha": query.alpha}
    for front, top in (("likely", None), ("possible", None), ("certain", None), ("likely", 3)):
        found = tried(
            lambda f=front, k=top: fl.skyline(
                rows, dict(query.attributes), certainty=f, top=k, **more, repository=repository
            )
        )
        record[f"mapped, {front}, {top}"] = found if "error" in found else section(found["rows"], {"row": "n", **TABLE})
        found = tried(lambda f=front, k=top: fl.skyline(rows, query, repository, certainty=f, top=k))
        found = found if "error" in found else section(found["rows"], {"id": "id", **TABLE}, by=query.by)
        record[f"asked, {front}, {top}"] = found
    return record


def tried(ask: Any) -> Record:
    try:
        with quiet():
            found = ask()
    except fl.FoglineError as error:
        return {"error": type(error).__name__}
    if hasattr(found, "to_pylist"):
        return {"rows": found.to_pylist()}
    return {"rows": found if isinstance(found, list) else found.to_dict("records")}


def imputed(stream: Stream) -> Record:
    """Through `fl.impute.distributions`, and what the repository has learnt."""
    (query,) = queries_of(stream).values()
    repository = repository_of(stream)
    assert repository is not None
    with quiet():
        found = fl.impute.distributions(table_of(stream, stream.rows), query, repository)
    rules = [str(rule) for rule in repository.rules]
    steps = [[step.then, [str(rule) for rule in step.rules], plain(step.expected)] for step in repository.explain()]
    cells = section(found.to_pylist(), IMPUTED, by=query.by)
    return {"cells": cells, "learnt": {"columns": ["then", "rules", "expected"], "rows": steps}, "rules": rules}


ENGINES = {
    "monitor": monitor,
    "at once": lambda stream: monitor(stream, at_once=True),
    "restored": lambda stream: monitor(stream, restored=True),
    "small batches": lambda stream: run(stream, "embedded"),
    "one batch": lambda stream: run(stream, "embedded", one=True),
    "followed": followed,
    "table": table,
    "impute": imputed,
}


def engines_of(stream: Stream) -> tuple[str, ...]:
    """Which engines run a stream, Spark aside."""
    imputes = stream.repository and len(stream.queries) == 1 and stream.typed
    return stream.engines + (("impute",) if imputes else ())


def recorded(stream: Stream, engine: str) -> Record:
    """What an engine reports of a stream; what the net knows of a restored monitor is what it knows of another."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        large, many = (256, 256) if stream.mode in ("large", "crowded") else (bulk.ROWS, live.MANY)
        try:  # streams of hundreds of rows go the way of large ticks
            with patch.object(bulk, "ROWS", large), patch.object(live, "MANY", many):
                return ENGINES[engine](stream)
        except fl.FoglineError as error:
            return {"error": f"{type(error).__name__}: {error}"}
