"""The least stream that still differs, and how it is shown: as a test to be pasted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from tests.fuzz.judging import Difference
from tests.fuzz.streams import NUMBER, Stream

TRIES = 600  # runs that one difference is worth


def shrunk(stream: Stream, run: Callable[[Stream], None], kind: str) -> Stream:
    """The same with less, as long as it differs in that way."""
    tries = 0

    def fails(some: Stream) -> bool:
        nonlocal tries
        tries += 1
        try:
            run(some)
        except Difference as found:
            return found.kind == kind
        except Exception:
            return False
        return False

    smaller = True
    while smaller and tries < TRIES:
        smaller = False
        for less in _less(stream):
            if tries >= TRIES:
                break
            if fails(less):
                stream, smaller = less, True
                break
    return stream


def _less(stream: Stream) -> Iterator[Stream]:
    """Streams that are a little simpler, the simplest first."""
    calls = stream.calls
    for k in reversed(range(len(calls))):
        yield _cut(stream, k, [])
    for k in range(len(calls) - 1):
        yield _cut(stream, k, [(calls[k + 1][0], calls[k][1] + calls[k + 1][1])], 2)
    for k, (now, rows) in enumerate(calls):
        for i in range(len(rows)):
            yield _cut(stream, k, [(now, rows[:i] + rows[i + 1 :])])
    plain = Stream(0, {})
    for name in (
        "ends",
        "raises",
        "restored",
        "tables",
        "eager",
        "shelved",
        "parts",
        "others",
        "lateness",
        "every",
        "own",
        "idle",
        "remember",
    ):
        if getattr(stream, name) != getattr(plain, name):
            yield replace(stream, **{name: getattr(plain, name)})
    for name in ("limits", "outside", "carry", "version", "gone", "remember_removed"):
        if stream.query.get(name):
            more = ("outside",) if name == "limits" else ()
            less = replace(stream, query={k: v for k, v in stream.query.items() if k not in (name, *more)})
            yield _columns(less, {stream.query[name]} if name in ("version", "gone") else set())
    if stream.query["by"]:
        yield _columns(replace(stream, query={**stream.query, "by": []}), {"g"})
    if len(stream.query["attributes"]) > 1:
        for name in reversed(stream.query["attributes"]):
            if name == list(stream.query["attributes"])[-1]:
                yield _without(stream, name)
    for k, (now, rows) in enumerate(calls):
        for i, row in enumerate(rows):
            for name in stream.query["attributes"]:
                if isinstance(row.get(name), list) or row.get(name) not in (0, None):
                    for value in (0, 1):
                        if row[name] != value:
                            yield _cut(stream, k, [(now, [*rows[:i], row | {name: value}, *rows[i + 1 :]])])


def _cut(stream: Stream, k: int, instead: list[Any], count: int = 1) -> Stream:
    """Other calls in the place of the k-th; marks of later calls move along."""
    calls = [*stream.calls[:k], *instead, *stream.calls[k + count :]]
    move = count - len(instead)
    marks: dict[str, Any] = {
        name: tuple(
            sorted({c if c < k + len(instead) else c - move for c in getattr(stream, name) if c != k or instead})
        )
        for name in ("ends", "raises", "restored")
    }
    return replace(stream, calls=calls, **marks)


def _without(stream: Stream, name: str) -> Stream:
    query = dict(stream.query)
    query["attributes"] = {k: v for k, v in query["attributes"].items() if k != name}
    query["carry"] = [k for k in query.get("carry", []) if k != name]
    query["limits"] = {k: v for k, v in query.get("limits", {}).items() if k != name}
    return _columns(replace(stream, query=query), {name})


def _columns(stream: Stream, without: set[str]) -> Stream:
    calls = [(now, [{k: v for k, v in row.items() if k not in without} for row in rows]) for now, rows in stream.calls]
    return replace(stream, calls=calls)


def shown(stream: Stream, runner: str, difference: str) -> str:
    """A test to be pasted into tests/fuzz/test_fuzz_streams.py."""
    plain = Stream(0, {})
    used = {row_key for row in stream.rows for row_key in row}
    lines = [
        f"def test_seed_{stream.seed}_{runner.split('_')[-1]}():",
        f"    # {difference}",
        "    nan, inf = float('nan'), float('inf')",
    ]
    lines += ["    stream = Stream(", f"        {stream.seed},", f"        {stream.query!r},"]
    for each in fields(Stream):
        value = getattr(stream, each.name)
        if each.name not in ("seed", "query", "calls") and value != getattr(plain, each.name):
            lines.append(f"        {each.name}={value!r},")
    lines.append("        calls=[")
    for now, rows in stream.calls:
        lines += [f"            ({now}, ["] + [f"                {row!r}," for row in rows] + ["            ]),"]
    lines += ["        ],", "    )", f"    {runner}(stream)"]
    assert NUMBER in used or not used
    return "\n".join(lines)
