"""Is every text that a person can write read, or refused in a sentence?

Queries and rules as files and as values, files' options, addresses of topics and sinks, conditions, lengths of time,
properties of clients, parameters of the page.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

import fogline as fl
from fogline.cli.answer import holds
from fogline.cli.options import starting_at
from fogline.files.options import Options
from fogline.kafka.client import Address, for_java, for_librdkafka, read_config
from fogline.pipeline.watermark import ahead_of, idle_of, lateness_of
from fogline.queries import asked_from
from fogline.repository import rules
from fogline.sinks.places import expanded, has_secret, shown, sink_for
from tests.chaos.mutating import mutated, refused

QUERY = b"""attributes: {temperature: max, oxygen: min}
id: sensor
time: ts
lifetime: 5 minutes
latest: true
gone: {op: [d, delete]}
version: v
carry: [oxygen]
remember_removed: 1 hour
alpha: 0.25
by: [site, "level 2"]
limits: {temperature: [-50, 1e3], oxygen: [0, .inf]}
outside: reject
name: mine
source: {format: csv, delimiter: ";", decimal: ",", missing: [-999], encoding: utf-8, times: "%d.%m.%Y"}
"""
RULES = b"""- voltage(0.01), light(5) -> temperature(0.5)
- {given: {site: 0, voltage: 0.01}, then: temperature, within: 2}
- time(10 min), sensor -> temperature(0.2)
"""
PROPERTIES = b"""security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.username=me
sasl.password=${HOME}
sasl.jaas.config=org.apache.kafka.Login required username="me" password="a\\"b";
"""
WORDS = (b"attributes", b"max", b"min", b"lifetime", b"last: 3\n", b"expires: e\n", b"latest: true\n", b"null", b"true",
         b"[]", b"{}", b"~", b"->", b"(0.5)", b"kafka://", b"postgresql://", b"delta:", b"webhook+https://", b"days",
         b"by:", b"limits:", b"source:", b"? ", b"!!int ", b"!!binary ", b"!!set ", b"<<", b"nan", b"inf", b"1e400",
         b">=", b"=", b"probability", b"now", b"off", b"auto", b"never", b"&x [*x]", b"[[[[", b"%Y")  # fmt: skip
TABLE = pa.table({"probability": [0.5], "id": ["a"], "t": pa.array([1], pa.timestamp("us", "UTC")), "in": [True],
                  "n": [1], "none": pa.nulls(1)})  # fmt: skip
ASKED = fl.Query(attributes={"a": "max"}, id="id", time="t", lifetime=5)
TEXTS: dict[str, tuple[bytes, ...]] = {
    "rule": (b"voltage(0.01), light(5) -> temperature(0.5)", b"time(10 min), sensor -> t(0.2)"),
    "topic": (b"kafka://one:9093,[::1]:9/readings?format=json", b"kafka://host/topic"),
    "sink": (b"postgresql://me@host:5432/db?table=mine&sslmode=require", b"delta:/tmp/nowhere/x?a=b", b"kafka://h:1/t",
             b"webhook+https://host/path?when=enter", b"postgresql://me:${HOME}@host/db"),
    "where": (b"probability > 0.5", b"id = 'a'", b"t <= 2024-01-01", b"in = true", b"n != 3", b"none = 3"),
    "length": (b"30 seconds", b"1 hour 30 min", b"250ms", b"off", b"auto", b"5"),
    "starting": (b"earliest", b"2024-05-01T12:00:00Z", b"latest"),
}  # fmt: skip


def _sink(text: str) -> None:
    shown(text), has_secret(text)
    expanded(text)
    if not text.strip().startswith(("delta", "webhook", "/", ".")) and ":" in text:  # nothing is made or reached
        sink_for(text, typed=True)


def _lengths(text: str) -> None:
    for kind in (pa.int64(), pa.timestamp("us")):
        for reader in (lateness_of, ahead_of, idle_of):
            refused(reader, text, ASKED, kind)


def _topic(text: str) -> None:
    str(Address.of(text))


READERS: dict[str, Callable[[str], Any]] = {
    "rule": rules.parse,
    "topic": _topic,
    "sink": _sink,
    "where": lambda text: holds(TABLE, text),
    "length": _lengths,
    "starting": starting_at,
}


def _properties(path: Path) -> None:
    found = read_config(path)
    for_java(found), for_librdkafka(found)


FILES: dict[str, tuple[bytes, tuple[Callable[[Path], Any], ...]]] = {
    "query": (QUERY, (fl.Query.load, Options.load)),
    "rules": (RULES, (rules.load,)),
    "properties": (PROPERTIES, (_properties,)),
}


def try_texts(seed: int, count: int) -> tuple[int, set[str]]:
    """So many texts of each sort; how many were tried, and what they were refused with."""
    rng, stated, tried = random.Random(seed), set[str](), 0
    for name, examples in TEXTS.items():
        for _ in range(count):
            text = mutated(rng.choice(examples), rng, WORDS).decode("utf-8", rng.choice(("replace", "surrogateescape")))
            tried += 1
            stated.add(_tried(name, text, READERS[name], text))
    return tried, stated


def try_files(seed: int, count: int) -> tuple[int, set[str]]:
    """The same with files of queries, rules and properties."""
    rng, stated, tried = random.Random(seed), set[str](), 0
    with TemporaryDirectory() as folder:
        for name, (example, all_readers) in FILES.items():
            for k in range(count):
                path = Path(folder, f"{name}-{k}")
                content = mutated(example, rng, WORDS)
                path.write_bytes(content)
                for read in all_readers:
                    tried += 1
                    stated.add(_tried(name, repr(content), _again, read, path))
                path.unlink()
    return tried, stated


VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 3, 10**5000, -(10**400), float("nan"), float("inf"), 1e308, "", "x", "5 minutes", "9" * 400,
    "\ud800", b"\xff", [], [[]], {}, {"a": "max"}, {"a": {}}, {1: 2}, [None], ["a", "a"], [["a"]], ("a", "b"), object(),
    {"a": [1, 2, 3]}, {"a": [10**400, 1]}, {"a": ["x", "y"]}, [{"a": 1}], "1e999 days", range(3), 1j,
)  # fmt: skip


def try_values(seed: int, count: int) -> tuple[int, set[str]]:
    """Queries and rules of values of every type in every field."""
    rng, stated = random.Random(seed), set[str]()
    fields = list(fl.Query.__dataclass_fields__)
    for k in range(count):
        values: dict[str, Any] = {"attributes": {"a": "max", "b": "min"}, "id": "id", "time": "t", "lifetime": 5}
        values |= {rng.choice(fields): rng.choice(VALUES) for _ in range(1 + k % 3)}
        stated.add(_tried("query", _words(values), _again, fl.Query.from_dict, values))
        stated.add(_tried("queries", _words(values), asked_from, values))
        rule = {"given": rng.choice(VALUES), "then": rng.choice(VALUES), "within": rng.choice(VALUES)}
        stated.add(_tried("rule", _words(rule), rules.as_rules, [rule]))
        stated.add(_tried("rules", _words(rule), rules.as_rules, [rng.choice(VALUES)]))
    return 4 * count, stated


def _words(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:
        return "a number of too many digits"


def _again(read: Callable[[Any], Any], given: Any) -> None:
    """A query that was read is one: it is the same when it is written and read again."""
    query = read(given)
    if isinstance(query, fl.Query):
        repr(query)
        assert fl.Query.from_dict(query.to_dict()) == query


def _tried(name: str, text: str, read: Callable[..., Any], *given: Any) -> str:
    try:
        return refused(read, *given) or ""
    except Exception as error:
        raise AssertionError(f"{name}: {type(error).__name__}: {str(error)[:300]} of {text[:2000]}") from error


def try_page(seed: int, count: int) -> tuple[int, set[str]]:
    """Parameters of the page, of any sort: it answers, or states in JSON what is wrong; it never breaks."""
    from fogline.page.app import page_of
    from tests.page.browsing import Browser
    from tests.page.writing import small

    rng, stated = random.Random(seed), set[str]()
    with TemporaryDirectory() as folder:
        small(Path(folder))
        page = page_of(folder)
        page.store.poll()
        browser = Browser(page.app)
        for _ in range(count):
            given = mutated(rng.choice(_ASKED), rng, _PARAMETERS)
            path = rng.choice(_PATHS) + "?" + "".join(chr(b) if 33 <= b < 127 else f"%{b:02x}" for b in given)
            answer = browser.get(path[:4000])
            assert answer.status_code in (200, 400, 404, 409), f"{path}: {answer.status_code}, {answer.text[:300]}"
            stated.add(answer.text[:100] if answer.status_code != 200 else "")
    return count, stated


_PATHS = ("/api/answer", "/api/changes", "/api/near", "/api/next", "/api/explain", "/static/..%2fapp.py", "/")
_ASKED = (b"at=2", b"since=1", b"id=a&arrived=1", b"id=a&query=0&group=x", b"at=2024-01-01&group=a&group=b", b"token=x")
_PARAMETERS = (
    b"at=",
    b"since=",
    b"query=",
    b"id=",
    b"group=",
    b"arrived=",
    b"&",
    b"=",
    b"1e999",
    b"nan",
    b"-1",
    b"inf",
)
