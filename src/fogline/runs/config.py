"""What is a run, may it go on in a folder that another may have begun, and what does the folder know of it?

The folder (`Output`) holds the checkpoint and, unless they go elsewhere alone, the batches (`output.folder_sink`).
`about.json` remembers the query, the columns of the stream, where it came from and where its batches go; going on with
another is refused, and the error names what differs. It also holds a mark that lies in the checkpoint too: the numbers
of batches are those of that checkpoint and of no other.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from fogline.errors import FoglineError
from fogline.files.listing import absolute, folders_in, plain
from fogline.files.options import Options
from fogline.impute.own import ImputeFunction
from fogline.impute.protocol import Imputer
from fogline.kafka.client import TopicOptions
from fogline.output.about import ASKED, Alarms, read_about, write_about
from fogline.output.files import counted
from fogline.output.folder import Folder
from fogline.output.folder_sink import BatchFolder, schemas_of
from fogline.output.sink import RunInfo, Sink, close_all, places_of
from fogline.pipeline.limits import Full, GroupLimits
from fogline.pipeline.names import ABOUT, CHANGES, CHECKPOINT, HEALTH, HERE, KINDS, MARK, REJECTS, REPOSITORIES, VIEWS
from fogline.pipeline.plan import BUCKETS
from fogline.pipeline.plans import Plans
from fogline.pipeline.rejects import kind_of_reason, rejected_for_gaps
from fogline.pipeline.report import group_columns
from fogline.queries import Asked, Queries, asked_from, differing, differing_fields, each_of
from fogline.repository.repository import Repository
from fogline.rows.changes import member_key, of_query
from fogline.runs.checkpoint import reported_by_spark
from fogline.runs.spill import PIECES
from fogline.saved import opened
from fogline.state.sqlite import FILE

_ACCEPT = " A run goes on with another one by `fogline run … --accept-repository`."


def refuse_other(before: dict[str, Any], now: dict[str, Any], output: str) -> None:
    """A run goes on with what it was started with, or not at all."""
    if unknown := sorted(before.keys() - now.keys()):
        raise FoglineError(
            f"{output!r} was begun by a newer Fogline, which knows of {', '.join(map(repr, unknown))}. Install that "
            "one, or choose another output."
        )
    for name, was in before.items():
        if was != now[name]:
            several = differing(was, now[name]) if name == "query" else None
            if several is not None:
                raise FoglineError(
                    f"{output!r} was begun with other queries: {several}.\nGo on with the old ones, by their names, or "
                    "choose another output."
                )
            if name == "query":
                raise FoglineError(
                    f"{output!r} was begun with another query: {differing_fields(was, now[name])}.\n"
                    "Go on with the old one, or choose another output."
                )
            what = "list of sinks" if name == "sinks" else name
            raise FoglineError(
                f"{output!r} was begun with another {what}.\n  it was {was}\n  now it is {now[name]}\n"
                f"Go on with the old one, or choose another output.{_ACCEPT if name == 'repository' else ''}"
            )


def refuse_other_columns(explained: bool, config: RunConfig) -> None:
    """The columns of changes stay the same as long as a run goes on, wherever they go."""
    if explained != config.explain:
        was, way = ("with", "add it again") if explained else ("without", "leave it out")
        way += " (in Python explain=)"
        raise FoglineError(
            f"{config.output!r} was begun {was} --explain, which adds a column to its changes: {way}, or choose "
            "another output."
        )


def refuse_other_engine(was: str, config: RunConfig) -> None:
    """The checkpoint of one engine is nothing to another."""
    if was != config.engine:
        raise FoglineError(
            f"{config.output!r} was begun by the engine {was}, and {config.engine} cannot read its checkpoint. Go "
            f"on with `fogline run … --engine {was}`, or choose another output."
        )


def refuse_other_checkpoint(place: Folder, mark: str | None, output: str) -> None:
    """Batches are numbered by the checkpoint: with another, or an older copy, old files would stand among new ones."""
    if mark is None:
        raise FoglineError(f"{output!r} was begun by another version of Fogline; choose another output.")
    found = place.get(MARK)
    way_out = "Put back the one that belongs to it, or choose another output."
    if found is None:
        raise FoglineError(
            f"the checkpoint of {output!r} is gone: a new one would count batches from 0 again, among the files of "
            f"the old ones. {way_out}"
        )
    if _mark_in(found, way_out) != mark:
        raise FoglineError(f"the checkpoint in {output!r} belongs to another output. {way_out}")


def refuse_old_checkpoint(place: Folder, known: int, output: str) -> None:
    """The checkpoint knows of all batches of which there are files; `known`: the last one that was begun."""
    newest = max((held.last for kind in (*KINDS, *VIEWS) for held in counted(place.listing(kind))), default=-1)
    if newest > known:
        raise FoglineError(
            f"the checkpoint in {output!r} is an old copy: it knows of batches up to {known}, "
            f"but there are files of batch {newest}. Put back the one that belongs to it, or choose another output."
        )


def refuse_lost_batches(place: Folder, reported: int, output: str) -> None:
    """The output has the last batch that had something to report: each such batch has a file of health."""
    newest = max((held.last for held in counted(place.listing(HEALTH))), default=-1)
    if newest < reported:
        raise FoglineError(
            f"{output!r} is not whole: the run has written files of batch {reported}, and there are files of batches "
            f"up to {newest} only. Put back a copy of it, or run the stream again with another output."
        )


def _begun_by_spark(place: Folder) -> int:
    """The last batch that Spark has begun; -1: none."""
    known = [int(last) for name in place.listing(f"{CHECKPOINT}/offsets") if (last := name.split("/")[-1]).isdigit()]
    return max(known, default=-1)


def _mark_in(content: bytes, way_out: str) -> str:
    found = opened(content)
    if found is None or "mark" not in found:
        raise FoglineError(f"{MARK!r} is damaged: it is not what a run has written. {way_out}")
    return str(found["mark"])


def kinds_of(places: list[str]) -> list[str]:
    """Of what kind the places are that batches go to: a folder, a topic, tables.

    >>> kinds_of(["kafka://b:9092/t", "delta:/x", "/out/b:c", "its own folder"])
    ['delta', 'folder', 'its own folder', 'kafka']
    """
    return sorted(place if place == HERE else (re.match(r"\w+(?=:)", place) or ["folder"])[0] for place in places)


def refuse_subfolders(stream: str) -> None:
    """A stream that was moved knows its files by their names alone: they must lie in one folder."""
    if len(folders := folders_in(stream)) > 1:
        raise FoglineError(
            f"{stream!r} has files in {len(folders)} folders, and in one that was moved files are known by their names "
            "alone.\nPut the folder back where it was, or choose another output."
        )


SPARK, EMBEDDED = ENGINES = ("spark", "embedded")
PLANNED = (
    "imputer",
    "every",
    "lateness",
    "ahead",
    "idle",
    "hindsight",
    "explain",
    "views",
    "max_state",
)  # what a plan has of a config


@dataclass(frozen=True, slots=True)
class RunConfig:
    """What is watched, and where the answer goes."""

    stream: str
    output: str
    query: Asked
    repository: Repository | None = None
    every: str = "tick"
    lateness: Any = 0
    ahead: Any = "auto"
    idle: Any = "auto"  # it may differ when a run is resumed
    moved: bool = False  # the stream's folder has another path than before
    keep_batches: int | None = None  # batches whose changes are kept, at least; None: all
    hindsight: bool | None = None  # whether gaps are revised by later readings; None: where that was learnt
    options: Options = field(default_factory=Options)  # how files are read; what is not stated is looked for
    topic: TopicOptions | None = None  # how a topic of Kafka is read; None: as usual, or the stream is none
    imputer: Imputer | ImputeFunction | None = None  # the user's own, asked first
    engine: str = SPARK  # what carries rows and state between stages: one of ENGINES
    sinks: tuple[Sink, ...] = ()  # where batches go, beside the folder
    accepts: bool = False  # going on with another repository than before
    successor: Repository | None = None  # the one that the run is to go on with, from the next batch on
    formers: tuple[Repository | None, ...] = ()  # those that it had before, the first one first
    keeps: bool = True  # whether batches go into the folder too; else it holds the checkpoint and about.json alone
    explain: bool = False  # whether changes have the column `why`, and the folder near rows and cells to measure next
    limits: GroupLimits = field(
        default_factory=GroupLimits
    )  # how large groups may become; they may differ when a run is resumed

    def __post_init__(self) -> None:
        """Of this machine's own files, paths are plain: `file:///in` is `/in`."""
        for name in ("stream", "output"):
            object.__setattr__(self, name, plain(getattr(self, name)))

    @property
    def views(self) -> bool:
        """Whether near rows and cells to measure next are written: they go into the folder alone."""
        return self.explain and self.keeps

    @property
    def max_state(self) -> int | None:
        """Bytes that a group may take."""
        return self.limits.max_state

    def about(self) -> dict[str, Any]:
        """What must stay the same when a run is resumed."""
        return {
            "query": self.query.to_dict(),
            "repository": None if self.repository is None else self.repository.fingerprint,
            "every": self.every,
            "lateness": str(self.lateness),
            "ahead": str(self.ahead),
            "hindsight": self.hindsight is not False and learnt_hindsight(self.repository),
            "explain": self.explain,
            "sinks": [*([HERE] if self.keeps else []), *places_of(self.sinks)],
        }


def learnt_hindsight(repository: Repository | None) -> bool:
    """Whether this repository can revise what it imputes."""
    return repository is not None and repository.sensors is not None and repository.sensors.hindsight


class Sizes(NamedTuple):
    """Rows of a group, as its last health shows."""

    live: int
    answer: int  # members
    waiting: int  # not yet `lateness` behind the newest


@dataclass(slots=True)
class RunStatus:
    """How a run is doing, as its batches show."""

    batch: int = -1
    seconds: float = 0.0  # of the last batch
    rows: int = 0  # of the last batch
    total: int = 0
    rejected: int = 0
    held: int = 0  # rows that ran ahead of their group, and have not entered
    late: int = 0  # rows that were behind the clock of their group, and entered there
    expired: int = 0  # rows that had expired before they could enter
    stale: int = 0  # rows that were ignored: something newer of their ids was there
    sensors_forgotten: int = 0  # sensors whose readings were forgotten: there were too many
    changes: int = 0
    waiting: int = 0  # rows that are not yet `lateness` behind the newest
    reasons: Counter[str] = field(default_factory=Counter)  # kind of reason -> rejects
    alarms: list[Full] = field(default_factory=list)  # groups that are near a limit, or beyond it
    behind: int = 0  # files (messages of a topic) that are there, and were not read when the last batch ended
    sizes: dict[str, Sizes] = field(default_factory=dict)  # by group; those with any
    each: dict[str, RunStatus] = field(default_factory=dict)  # by query, where there are several
    warned: bool = False  # that rows are rejected for gaps

    @property
    def live(self) -> int:
        """Rows that can still matter, in all groups."""
        return sum(each.live for each in self.sizes.values())

    @property
    def answer(self) -> int:
        """Rows in the answer, in all groups."""
        return sum(each.answer for each in self.sizes.values())

    def update(self, parts: dict[str, pa.Table], number: int, seconds: float, query: Asked) -> None:
        """Take in what a batch has reported. Each of several queries sees all rows: they are counted once."""
        if isinstance(query, Queries):
            for name, one in query.items():
                some = {kind: found for kind, table in parts.items() if (found := of_query(table, name)).num_rows}
                if HEALTH in some:
                    self.each.setdefault(name, RunStatus()).update(some, number, seconds, one)
            self._sum_up(number, seconds)
            return
        health = parts[HEALTH]
        self.batch, self.seconds = number, seconds
        self.rows = _sum(health["rows"])
        self.total += self.rows
        self.rejected += _sum(health["rejected"])
        self.held += _sum(health["held"]) - _sum(health["released"])
        self.late += _sum(health["late"])
        self.expired += _sum(health["expired"])
        self.stale += _sum(health["stale"]) if query.latest else 0
        self.sensors_forgotten += _sum(health["sensors_forgotten"])
        self.changes += parts[CHANGES].num_rows if CHANGES in parts else 0
        names = group_columns(query, HEALTH)
        for row in health.select([*names, *Sizes._fields]).to_pylist():
            key = json.dumps([row[name] for name in names], default=str)
            self.sizes[key] = size = Sizes(*(row[name] for name in Sizes._fields))
            if not any(size):
                del self.sizes[key]
        self.waiting = sum(each.waiting for each in self.sizes.values())
        for each in pc.value_counts(parts[REJECTS]["reason"]).to_pylist() if REJECTS in parts else ():
            self.reasons[kind_of_reason(each["values"])] += each["counts"]

    def warning(self) -> str | None:
        """What the user should know at once, the first time that it is asked after it is known."""
        text = None if self.warned else rejected_for_gaps(self.reasons)
        self.warned |= text is not None
        return text

    def _sum_up(self, number: int, seconds: float) -> None:
        """What several queries, which see the same rows, add up to.

        What was done with rows that came is counted once, for the query that has the most of them; changes, live rows
        and members are those of all.
        """
        self.batch, self.seconds = number, seconds
        now = [each for each in self.each.values() if each.batch == number]
        self.rows = max((each.rows for each in now), default=0)
        for name in ("total", "rejected", "held", "late", "expired", "stale", "sensors_forgotten", "waiting"):
            setattr(self, name, max((getattr(each, name) for each in self.each.values()), default=0))
        self.changes = sum(each.changes for each in self.each.values())
        self.reasons = Counter()
        for each in self.each.values():
            self.reasons |= each.reasons
        self.sizes = {f"{name}{key}": size for name, each in self.each.items() for key, size in each.sizes.items()}


def _sum(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)


class Output:
    """The folder of a run."""

    def __init__(self, place: Folder, config: RunConfig) -> None:
        self.place, self.config = place, config
        self.buckets: int | None = None  # of sensors, in the checkpoint of a run that has begun
        self.mark = ""  # of the checkpoint, once a run has begun
        self.new = False  # whether this start has begun it
        self.closed = False  # since the last start
        self.alarms = Alarms(place)
        self.folder = BatchFolder(place, config.query, config.output, config.keep_batches)

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """All places, in the order in which they get a batch: the folder last, since files of workers end there."""
        return (*self.config.sinks, *([self.folder] if self.config.keeps else []))

    def info(self, plan: Plans, last: int | None, reported: int, remark: Callable[[str], None]) -> RunInfo:
        """What sinks may know of a run that has begun.

        `last`: the last batch that the engine has committed, `reported`: that had something to report.
        """
        query = plan.asked
        if self.config.sinks and len({each.latest for each in each_of(query).values()}) > 1:
            raise FoglineError(
                "some of the queries count only the newest row of each id (latest), and others count all: --to "
                "takes one kind. Run them apart, or write to --output alone."
            )
        return RunInfo(self.mark, query, schemas_of(plan), tuple(member_key(query)), last, remark, self.new, reported)

    def close(self) -> None:
        """No more batches come from this process. Each sink is closed once."""
        if not self.closed:
            self.closed = True
            close_all(self.sinks)

    def shape(self) -> dict[str, Any] | None:
        """The columns of the stream as they were when the run began; None: it begins now. Another run is refused."""
        shape = self.begun()
        if shape is not None:
            self._note_stream()
            self.resume()
        return shape

    def begun(self) -> dict[str, Any] | None:
        """The same, while nothing is written. A run that has yet to begin its first batch begins now."""
        before, batches = read_about(self.place), has_batches(self.place)
        if before is None and batches:
            raise FoglineError(
                f"{self.config.output!r} holds batches of a run, but no {ABOUT}, which knows what they are about. "
                f"Put that file back, or choose another output."
            )
        if before is None or not batches:
            return None
        shape: dict[str, Any] = before.pop("shape")
        self.buckets = before.pop("buckets", None)
        refuse_other_engine(before.pop("engine", SPARK), self.config)
        self.mark = before.pop("mark", None)
        if (asked := before.pop(ASKED, None)) is not None:
            self.folder.ask(asked_from(asked))
        refuse_other_checkpoint(self.place, self.mark, self.config.output)
        if self.config.engine == SPARK:  # the embedded engine opens its checkpoint first
            refuse_old_checkpoint(self.place, _begun_by_spark(self.place), self.config.output)
            if self.config.keeps:
                refuse_lost_batches(self.place, reported_by_spark(self.place), self.config.output)
        if REPOSITORIES not in before and self.config.query.by:
            raise FoglineError(
                f"{self.config.output!r} was begun by an earlier version of Fogline, whose states of groups this one "
                "does not read. Go on with that version, or choose another output; `fogline answer` reads both."
            )
        came = before.pop("stream", None)
        for name in ("format", "moved", REPOSITORIES):
            before.pop(name, None)
        refuse_other_columns(before.pop("explain", False), self.config)
        places = before.pop("sinks", [HERE])
        now = self.config.about()
        if not self.config.moved:  # else each place knows by itself which run it belongs to
            before["sinks"] = places
        elif kinds_of(places) != kinds_of(now["sinks"]):
            raise FoglineError(
                f"{self.config.output!r} was begun with batches going to {', '.join(map(repr, places))}; now it is "
                f"{', '.join(map(repr, now['sinks']))}. With --moved a place may have another address, but none may "
                "come or go: it would not hold the whole. Name those that it was begun with, or choose another output."
            )
        refuse_other(before, now, self.config.output)
        self._same_stream(came)
        return shape

    def begin(self, shape: dict[str, Any], buckets: int = BUCKETS, asked: Asked | None = None) -> None:
        """Remember what this run is about. `asked`: its query, with the names of all columns that it keeps."""
        self.buckets, self.mark, self.new = buckets, uuid4().hex, True
        self.place.clear(CHECKPOINT)  # no batch was begun: what lies there is of a start that failed
        self.place.put(MARK, json.dumps({"mark": self.mark}).encode())
        known = {"buckets": buckets, "shape": shape, "stream": absolute(self.config.stream), "mark": self.mark}
        known |= {REPOSITORIES: [entry_of(self.config.repository, 0)]}
        if asked is not None and asked != self.config.query:
            known |= {ASKED: asked.to_dict()}
            self.folder.ask(asked)
        about = {**self.config.about(), "engine": self.config.engine, **known}
        write_about(self.place, about)
        self.resume()

    def move(self, config: RunConfig, since: int) -> None:
        """From this batch on the run has the repository of this config; the folder knows all that it had."""
        about = read_about(self.place)
        assert about is not None
        history = [*about.get(REPOSITORIES, [entry_of(self.config.repository, 0)]), entry_of(config.repository, since)]
        write_about(self.place, {**about, **config.about(), REPOSITORIES: history})
        self.config = config

    def resume(self) -> None:
        """End what an earlier run has begun, and forget what it has not finished."""
        self.place.clear(PIECES)
        self.folder.resume()

    def _same_stream(self, came: str | None) -> None:
        now = absolute(self.config.stream)
        if came == now:
            return
        if not self.config.moved:
            raise FoglineError(
                f"{self.config.output!r} was begun with another stream.\n  it was {came}\n  now it is {now}\n"
                "If these are the same files in another place, add --moved to `fogline run`; else "
                "choose another output."
            )
        refuse_subfolders(self.config.stream)

    def _note_stream(self) -> None:
        """Where the stream is now, if it was moved."""
        about, now = read_about(self.place), absolute(self.config.stream)
        if about is not None and about["stream"] != now:
            write_about(self.place, {**about, "stream": now, "moved": True})

    @property
    def by_name(self) -> bool:
        """Whether files are recognised by their names alone, since the stream's folder was moved."""
        return bool((read_about(self.place) or {}).get("moved", False))


def entry_of(repository: Repository | None, since: int) -> dict[str, Any]:
    """What a folder knows of a repository: which one, where it lay, and from which batch on it was the run's."""
    place = None if repository is None or repository.folder is None else absolute(str(repository.folder))
    return {"fingerprint": None if repository is None else repository.fingerprint, "folder": place, "since": since}


def has_batches(place: Folder) -> bool:
    """Whether a batch was ever begun: numbers of batches begin at 0, in an empty folder."""
    begun = place.listing(f"{CHECKPOINT}/offsets") or f"{CHECKPOINT}/{FILE}" in place.listing(CHECKPOINT)
    return bool(begun) or any(place.listing(kind) for kind in (*KINDS, *VIEWS))
