"""Which features does a stream show, on which engines, and which pairs does the product not have?

`matrix.md` is generated from what was recorded: a supported pair without a stream is an error when recording.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.net.streams import Stream

MONITORS = ("monitor", "at once", "restored")
EMBEDDED = ("small batches", "one batch")
SPARK = ("spark table", "spark stream")
PIPELINES = (*EMBEDDED, *SPARK)
ENGINES = (*MONITORS, *EMBEDDED, "followed", *SPARK, "table", "impute")
ABOUT = {
    "monitor": "`fl.Monitor`, call by call",
    "at once": "`fl.Monitor`, all rows in one call",
    "restored": "`fl.Monitor`, restored from its snapshot at three ticks; held to what `monitor` gave",
    "small batches": "`fogline run --engine embedded`, one file a batch",
    "one batch": "the same, all files in one batch",
    "followed": "the embedded engine while it waits for more files",
    "spark table": "`fl.spark.watch` of a table",
    "spark stream": "`fl.spark.run`, one file a batch",
    "table": "`fl.skyline`, by a mapping and by a query; its times do not count",
    "impute": "`fl.impute.distributions`: what gaps may be",
}

ANYWHERE = (*MONITORS, *PIPELINES)
OWN_CLOCK = "the caller of a monitor moves its clock"
FILES = "a pipeline reads columns of files or frames"
# A feature, the engines that have it, and why the others do not. `followed`, `table` and `impute` only where named.
SUPPORTED: dict[str, tuple[tuple[str, ...], str]] = {
    "lifetime": ((*ANYWHERE, "followed"), ""),
    "expires column": ((*ANYWHERE, "followed"), ""),
    "last=N": (ANYWHERE, "rows of a count never fall silent"),
    "latest": (ANYWHERE, "`fl.skyline` refuses it"),
    "latest, no expiry": (ANYWHERE, ""),
    "latest, gone": (ANYWHERE, ""),
    "latest, version": (ANYWHERE, ""),
    "latest, remember_removed": (ANYWHERE, ""),
    "latest, carry": (ANYWHERE, ""),
    "groups": ((*ANYWHERE, "followed", "table", "impute"), ""),
    "many small groups": (ANYWHERE, ""),
    "several queries": (PIPELINES, "a monitor and a table answer one query"),
    "several windows": (PIPELINES, "a monitor and a table answer one query"),
    "lateness": (PIPELINES, OWN_CLOCK),
    "late rows": (ANYWHERE, ""),
    "ahead": (PIPELINES, OWN_CLOCK),
    "idle": (("followed",), "only while more is awaited; on Spark the time of day decides, see tests/spark"),
    "limits": (ANYWHERE, ""),
    "limits, rejected": (ANYWHERE, ""),
    "max only": ((*ANYWHERE, "table"), ""),
    "min only": ((*ANYWHERE, "table"), ""),
    "min and max": ((*ANYWHERE, "followed", "table", "impute"), ""),
    "one attribute": ((*ANYWHERE, "table"), ""),
    "three or more attributes": ((*ANYWHERE, "table"), ""),
    "alpha 0": ((*ANYWHERE, "table"), ""),
    "alpha 0.1": ((*ANYWHERE, "table"), ""),
    "alpha 0.5": ((*ANYWHERE, "followed", "table"), ""),
    "alpha 0.9": ((*ANYWHERE, "table"), ""),
    "own distributions": ((*ANYWHERE, "followed", "table"), ""),
    "wide distributions": (ANYWHERE, ""),
    "few places: bracketed": (MONITORS, "`places` is an argument of a monitor"),
    "large ticks": (ANYWHERE, ""),
    "crowds": (("monitor", "restored", "one batch", *SPARK), "not recorded with more calls: too slow"),
    "rejects": (ANYWHERE, ""),
    "rejects of odd kinds": (MONITORS, FILES),
    "copies": (ANYWHERE, ""),
    "timestamps": (ANYWHERE, ""),
    "no repository": ((*ANYWHERE, "followed", "table"), ""),
    "rules given": ((*ANYWHERE, "table", "impute"), ""),
    "rules discovered": ((*ANYWHERE, "impute"), ""),
    "rules of the paper": ((*ANYWHERE, "impute"), ""),
    "sensors": ((*ANYWHERE, "impute"), ""),
    "hindsight": ((*ANYWHERE, "impute"), ""),
    "last value": ((*ANYWHERE, "impute"), ""),
    "mean": ((*ANYWHERE, "impute"), ""),
    "others": ((*ANYWHERE, "impute"), ""),
    "whole history": ((*ANYWHERE, "impute"), ""),
    "own function": ((*MONITORS, *SPARK), "`fogline run` takes no imputer of the user's own"),
    "knn": ((*MONITORS, *SPARK), "`fogline run` takes no imputer of the user's own"),
    "latest with gaps": (ANYWHERE, ""),
    "hindsight, latest": (ANYWHERE, ""),
    "lateness with gaps": (PIPELINES, OWN_CLOCK),
    "max_sensors": (ANYWHERE, ""),
    "remember=False": (MONITORS, "an argument of a monitor"),
    "eager": (MONITORS, "an argument of a monitor"),
    "every tick": (PIPELINES, "of a monitor that is `ticks`"),
    "every batch": (PIPELINES, "of a monitor that is `ticks`"),
    "ticks=False": (("monitor", "restored"), "of a pipeline that is `every`; all in one call has ticks"),
    "explain": (MONITORS, ""),
    "explain: column why": (PIPELINES, "a monitor has `explain`"),
    "views: near and next": (EMBEDDED, "`fl.spark.watch` and `fl.spark.run` write no folder of views"),
    "dicts": ((*MONITORS, "table"), FILES),
    "arrow": ((*MONITORS, "table"), ""),
    "pandas": ((*MONITORS, "table"), FILES),
}  # fmt: skip
REPOSITORIES = {
    "": "no repository", "given": "rules given", "discovered": "rules discovered", "paper": "rules of the paper",
    "sensors": "sensors", "fitted": "hindsight", "last": "last value", "mean": "mean", "others": "others",
    "whole": "whole history",
}  # fmt: skip


def features(stream: Stream) -> Iterator[str]:
    """What a stream shows, whichever engine runs it."""
    for query in stream.queries.values():
        yield from _of_query(query)
    lifetimes = {str(query.get("lifetime")) for query in stream.queries.values()}
    cells = [row.get(name) for row in stream.rows for name in stream.attributes]
    names = [(row.get("id"), row.get("g"), row.get("t")) for row in stream.rows]
    gaps, latest = None in cells, bool(stream.first.get("latest"))
    yield REPOSITORIES[stream.repository]
    shown = {
        "several queries": len(stream.queries) > 1,
        "several windows": len(lifetimes) > 1,
        "many small groups": stream.mode == "many groups",
        "lateness": "lateness" in stream.how,
        "lateness with gaps": "lateness" in stream.how and gaps,
        "late rows": _is_late(stream),
        "ahead": stream.how.get("ahead") not in (None, "off"),
        "idle": "idle" in stream.how,
        "own distributions": any(isinstance(cell, list) for cell in cells),
        "wide distributions": any(isinstance(cell, list) and len(cell) > 6 for cell in cells),
        "few places: bracketed": "places" in stream.monitor,
        "large ticks": stream.mode == "large",
        "crowds": stream.mode == "crowded",
        "rejects": stream.mode == "rejects",
        "rejects of odd kinds": not stream.typed,
        "copies": len({str(name) for name in names}) < len(names),
        "timestamps": stream.stamps,
        "own function": stream.own == "function",
        "knn": stream.own == "knn",
        "latest with gaps": latest and gaps and bool(stream.repository),
        "hindsight, latest": latest and stream.repository == "fitted" and gaps,
        "remember=False": stream.monitor.get("remember") is False,
        "eager": bool(stream.monitor.get("eager")),
        "ticks=False": bool(stream.ends),
        "explain": stream.asked,
        "explain: column why": bool(stream.how.get("explain")),
        "views: near and next": bool(stream.how.get("explain")),
        stream.tables: True,
        f"every {stream.how.get('every', 'tick')}": True,
    }
    yield from (name for name, there in shown.items() if there)


def _of_query(query: Mapping[str, Any]) -> Iterator[str]:
    ways = set(query["attributes"].values())
    yield "min and max" if len(ways) == 2 else f"{ways.pop()} only"
    yield f"alpha {query['alpha']:g}"
    latest, until = query.get("latest"), [name for name in ("lifetime", "expires", "last") if query.get(name)]
    shown = {
        "lifetime": "lifetime" in until,
        "expires column": "expires" in until,
        "last=N": "last" in until,
        "latest": latest,
        "latest, no expiry": latest and not until,
        "latest, gone": query.get("gone"),
        "latest, version": query.get("version"),
        "latest, remember_removed": "remember_removed" in query,
        "latest, carry": query.get("carry"),
        "groups": query.get("by"),
        "limits": query.get("limits") and query.get("outside") != "reject",
        "limits, rejected": query.get("outside") == "reject",
        "one attribute": len(query["attributes"]) == 1,
        "three or more attributes": len(query["attributes"]) >= 3,
        "max_sensors": "max_sensors" in query,
    }
    yield from (name for name, there in shown.items() if there)


def _is_late(stream: Stream) -> bool:
    """Whether a call has a row that is older than the clock before it."""
    clocks = [now for now, _ in stream.calls]
    later = zip(clocks, stream.calls[1:], strict=False)
    return any(isinstance(row["t"], int) and row["t"] < clock for clock, (_, rows) in later for row in rows)


def covered(pairs: Iterable[tuple[Stream, Iterable[str]]]) -> dict[tuple[str, str], list[str]]:
    """Which streams cover which pair: (feature, engine) -> names."""
    found = defaultdict[tuple[str, str], list[str]](list)
    for stream, engines in pairs:
        for feature in dict.fromkeys(features(stream)):
            for engine in engines:
                found[feature, engine].append(stream.name)
    return dict(found)


def lacking(found: Mapping[tuple[str, str], list[str]]) -> list[tuple[str, str]]:
    """Supported pairs that no stream covers."""
    return [(feature, engine) for feature, (engines, _) in SUPPORTED.items() for engine in engines
            if (feature, engine) not in found]  # fmt: skip


def matrix(found: Mapping[tuple[str, str], list[str]]) -> str:
    """Feature × engine, as Markdown."""
    lines = [
        "# Which streams cover which feature on which engine?",
        "",
        "Generated by `python -m tests.net --record`. A cell holds how many streams, and one of them; `–`: the product",
        "does not have the pair; empty: it means nothing there. All streams of a pair are listed by",
        '`python -m tests.net --covering "latest, gone" --engine restored`.',
        "",
        *(f"- **{name}**: {what}" for name, what in ABOUT.items()),
        "",
        f"| feature | {' | '.join(ENGINES)} | where not, why |",
        f"|---|{'---|' * len(ENGINES)}---|",
    ]
    for feature, (engines, why) in SUPPORTED.items():
        cells = []
        for engine in ENGINES:
            some = found.get((feature, engine), [])
            empty = "**none**" if engine in engines else "–" if engine in ANYWHERE else ""
            cells.append(f"{len(some)}: {some[0]}" if some and engine in engines else empty)
        lines.append(f"| {feature} | {' | '.join(cells)} | {why} |")
    return "\n".join(lines) + "\n"
