"""Is whatever was saved, and was damaged since, refused, or read just as it was?

Snapshots of monitors; states and cells, rows between the stages of a pipeline; files of a checkpoint; about.json;
files of a repository; machine code. Each is cut, and bytes of it are changed; what reads it must refuse it by a
FoglineError that names it, or find what was written. Nothing else may happen, and nothing large may be allocated.
"""

from __future__ import annotations

import random
import resource
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

import fogline as fl
from fogline.kernels import compile as machine_code
from fogline.output.about import read_about
from fogline.output.folder import LocalFolder
from fogline.pipeline.exchange import pack_bucket, pack_groups, unpack_bucket, unpack_groups
from fogline.pipeline.plan import make_plan
from fogline.pipeline.plans import Plans
from fogline.pipeline.stages import dealt, pruned
from fogline.runs.embedded import Embedded
from fogline.saved import MAGIC, pack, unpack
from fogline.state.format import from_state, from_value
from fogline.state.sqlite import FILE
from tests.chaos.mutating import damaged, every_bit, refused
from tests.flow.embedding import (
    APPENDED,
    CASES,
    NEWEST,
    changes_of_ids,
    config_of,
    kept,
    learnt,
    readings,
    run,
    state_of,
    write_stream,
)  # fmt: skip
from tests.walks import QUERY, walks

STATES, VALUES = ("groups", "large", "sensors"), ("waiting", "readings", "changelog")  # in stores: states, beside them


@dataclass(frozen=True)
class Saved:
    """Something that was saved: how it is read, as values that can be compared."""

    name: str
    whole: bytes
    read: Callable[[bytes], Any]


@dataclass
class Tried:
    """What came of it."""

    faults: int = 0
    refused: int = 0
    stated: str = ""


def try_saved(saved: Saved, rng: random.Random, most: int, tried: Tried, *, bits: bool = False) -> None:
    """Damage it in many ways; each is refused, or changes nothing."""
    before = saved.read(saved.whole)
    for how, bad in every_bit(saved.whole) if bits else damaged(saved.whole, rng, most):
        found: list[Any] = []
        try:
            stated = refused(_into, found, saved.read, bad)
        except BaseException as error:
            raise AssertionError(f"{saved.name}, {how}: {type(error).__name__}: {str(error)[:300]}") from error
        tried.faults += 1
        if stated is None:
            assert same(found[0], before), f"{saved.name}, {how}: it is read, and is another"
        else:
            tried.refused, tried.stated = tried.refused + 1, stated


def _into(found: list[Any], read: Callable[..., Any], *given: Any) -> None:
    found.append(read(*given))


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same, arrays bit for bit."""
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other or one is other)


# --- Examples ---------------------------------------------------------------------------------------------------------


@cache
def snapshots() -> tuple[Saved, ...]:
    """Of monitors of every sort."""
    counting = fl.Query(attributes={"a": "max", "b": "min"}, id="id", time="t", last=20)
    made: list[tuple[str, fl.Query, pa.Table, Any]] = [
        ("groups", APPENDED, readings(120, 1), None),
        ("a count", counting, readings(60, 2).drop_columns(["site"]), None),
        ("the newest of each id", NEWEST, changes_of_ids(200, 3, 30), None),
        ("sensors, with hindsight", QUERY, walks(steps=12, gaps=0.3, begin=200), learnt()),
    ]
    found = []
    for name, query, table, repository in made:
        monitor = fl.Monitor(query, repository)
        monitor.advance(max(table["t"].to_pylist()), table)

        def read(saved: bytes, query: fl.Query = query, repository: Any = repository) -> Any:
            return unpack(fl.Monitor.restore(query, saved, repository).snapshot())

        found.append(Saved(f"snapshot of {name}", monitor.snapshot(), read))
    return tuple(found)


@cache
def states() -> tuple[Saved, ...]:
    """What the stages keep between batches, by the embedded engine."""
    found: list[Saved] = []
    for name, case in CASES.items():
        with TemporaryDirectory() as folder:
            write_stream(case, Path(folder, "in"))
            running = run(config_of(case, Path(folder)))
            plan = _plan(running)
            there = {
                tuple(name): value for (table, *name), value in kept(Path(folder, "out")).items() if table == "state"
            }
            for what in (*STATES, *VALUES):
                entries = [name for name in there if name[1] == what][:1]
                read: Callable[[bytes], Any] = from_cell_read if what in VALUES else _state_reader(plan)
                found += [Saved(f"{what} of {name}", there[entry], read) for entry in entries]
    return tuple(found)


def from_cell_read(saved: bytes) -> Any:
    return from_value(saved, "cell")


def _state_reader(plan: Any) -> Callable[[bytes], Any]:
    return lambda saved: from_state(plan.first, saved, "state of a group")


def _plan(running: Embedded) -> Any:
    from fogline.runs.start import layout_for, plans_for_files

    layout, _ = layout_for(running.output, None, running.remark)
    return plans_for_files(running.output, layout, follow=False)[0]


@cache
def travelling() -> tuple[Saved, ...]:
    """Rows by group, and for a bucket of sensors."""
    table = readings(60, 4)
    plan = make_plan(APPENDED, table.schema)
    [chunk, *_] = pruned(Plans.alone(plan), table.to_batches())
    sensors = walks(steps=6, gaps=0.3, begin=200)
    dealing = make_plan(QUERY, sensors.schema, opened=learnt)
    [(_, bucket), *_] = dealt(Plans.alone(dealing), sensors.to_batches())

    return (
        Saved("groups", pack_groups(plan, chunk.groups), lambda saved: pack_groups(plan, unpack_groups(plan, saved))),
        Saved(
            "bucket", pack_bucket(dealing, bucket), lambda saved: pack_bucket(dealing, unpack_bucket(dealing, saved))
        ),
        Saved("a few arrays", pack({"n": 1}, {"a": np.arange(3)}), unpack),
    )


def compiled() -> Saved:
    """Machine code: what is not what was written is never unpickled."""

    def read(saved: bytes) -> bytes:
        try:
            return machine_code._opened(saved)
        except ValueError as error:
            raise fl.FoglineError(str(error)) from None

    return Saved("machine code", machine_code._closed(bytes(range(256)) * 4), read)


# --- Files ------------------------------------------------------------------------------------------------------------


def try_files(
    folder: Path, read: Callable[[], Any], rng: random.Random, most: int, tried: Tried, *, without: bool
) -> None:
    """The same with every file below a folder, one at a time. `without`: also where it is not there."""
    for path in sorted(each for each in folder.rglob("*") if each.is_file() and each.name != "lock"):
        whole = path.read_bytes()

        def again(content: bytes, path: Path = path, whole: bytes = whole) -> Any:
            path.write_bytes(content)
            try:
                return read()
            finally:
                path.write_bytes(whole)

        if whole:
            try_saved(Saved(str(path.relative_to(folder)), whole, again), rng, most, tried)
        if not without:
            continue
        before = read()
        path.unlink()
        found: list[Any] = []
        stated = refused(_into, found, read)
        assert stated is not None or same(found[0], before), f"without {path.name} it is read, and is another"
        path.write_bytes(whole)
        tried.faults += 1


@contextmanager
def checkpoint(name: str) -> Iterator[tuple[Path, Callable[[], Any]]]:
    """The checkpoint of a run, and how it is read."""
    case = CASES[name]
    with TemporaryDirectory() as folder:
        write_stream(case, Path(folder, "in"))
        place = LocalFolder(Path(folder, "out"))
        run(config_of(case, Path(folder)), files_per_batch=1)

        def read() -> Any:
            with closing(state_of(place.root)) as state:
                names = [name for table, *name in kept(place.root) if table == "state"]
                whole = {tuple(name): state.checkpoint.get(tuple(name)) for name in names}
                return state.batch, whole, state.intent(), read_about(place)

        yield Path(folder, "out"), read


@contextmanager
def repository(fitted: fl.Repository | None = None) -> Iterator[tuple[Path, Callable[[], Any]]]:
    """A repository in a folder, and how it is read."""
    with TemporaryDirectory() as folder:
        (fitted or learnt()).save(Path(folder, "r"))

        def read() -> Any:
            found = fl.Repository.load(Path(folder, "r"))
            return [found.fingerprint, _arrays(found._parts)]

        yield Path(folder, "r"), read


def _arrays(part: Any, depth: int = 0) -> Any:
    """All that a part holds, as plain values."""
    if isinstance(part, np.ndarray | str | int | float | bool | type(None)):
        return np.asarray(part) if isinstance(part, np.ndarray) else part
    if isinstance(part, dict) or hasattr(part, "items"):
        return {str(key): _arrays(each, depth + 1) for key, each in part.items()}
    if isinstance(part, tuple | list):
        return [_arrays(each, depth + 1) for each in part]
    names = getattr(part, "__dict__", None) or {name: getattr(part, name) for name in getattr(part, "__slots__", ())}
    return {name: _arrays(each, depth + 1) for name, each in names.items() if not callable(each)} if depth < 8 else None


# --- Forged -----------------------------------------------------------------------------------------------------------


def forged(rng: random.Random, saved: bytes) -> tuple[str, bytes]:
    """What was packed with another header, and the checksum of that: lengths, types and names that are not there."""
    body = saved[12:]
    (length,) = struct.unpack_from("<Q", body)
    head, rest = body[8 : 8 + length], body[8 + length :]
    ways = {
        "2^60 rows": head.replace(b'"<f8", [', b'"<f8", [1152921504606846976, ', 1),
        "a negative length": head.replace(b'"<f8", [', b'"<f8", [-1, ', 1),
        "objects": head.replace(b'"<f8"', b'"|O"', 1),
        "texts": head.replace(b'"<f8"', b'"<U99999999"', 1),
        "no type": head.replace(b'"<f8"', b'"nothing"', 1),
        "deep": b"[" * 100_000,
        "no list of arrays": head.replace(b'"arrays"', b'"arroys"', 1),
        "a list": b"[]",
        "a long number": head.replace(b": ", b": " + b"9" * 5000, 1),
        "no header": b"",
        "a list of nothing": b'{"arrays": [[]]}',
    }
    name = rng.choice(sorted(ways))
    made = struct.pack("<Q", rng.choice((len(ways[name]), len(ways[name]), 2**63, 0))) + ways[name] + rest
    return name, MAGIC + struct.pack("<I", zlib.crc32(made)) + made


def try_forged(rng: random.Random, count: int, tried: Tried) -> None:
    """None of them is taken, and none takes much memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    examples = [each for each in (*snapshots(), *travelling()) if each.whole[: len(MAGIC)] == MAGIC]
    for _ in range(count):
        each = rng.choice(examples)
        name, bad = forged(rng, each.whole)
        if bad == each.whole:
            continue
        try:
            refused(each.read, bad)
        except BaseException as error:
            raise AssertionError(f"{each.name}, {name}: {type(error).__name__}: {str(error)[:300]}") from error
        tried.faults += 1
    for claim in (2**60, 2**63, 2**40, 2**33):
        cell = claim.to_bytes(8, "little") + states()[0].whole[-50:]
        assert refused(from_value, cell, "cell") is not None
        tried.faults += 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 300_000, f"{grown:,} kB were allocated"


def state_in(output: Path, read: Callable[[], Any]) -> Saved:
    """The file with the state of a run."""
    path = output / "checkpoint" / FILE

    def again(content: bytes) -> Any:
        whole = path.read_bytes()
        path.write_bytes(content)
        try:
            return read()
        finally:
            path.write_bytes(whole)

    return Saved(FILE, path.read_bytes(), again)


def about_of(output: Path) -> Saved:
    """What an output knows of its run."""
    path = output / "about.json"

    def read(content: bytes) -> Any:
        whole = path.read_bytes()
        path.write_bytes(content)
        try:
            return read_about(LocalFolder(output))
        finally:
            path.write_bytes(whole)

    return Saved("about.json", path.read_bytes(), read)
