"""How is the API reference made? From the docstrings, of everything that is public.

python docs/api.py        writes docs/api.md
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import fogline
import fogline.errors
import fogline.impute
import fogline.plot
import fogline.sinks
import fogline.spark
import fogline.types

PAGE = Path(__file__).with_name("api.md")
ROOMS = {
    "fl.": fogline,
    "fl.types.": fogline.types,
    "fl.impute.": fogline.impute,
    "fl.plot.": fogline.plot,
    "fl.sinks.": fogline.sinks,
    "fl.spark.": fogline.spark,
    "fl.errors.": fogline.errors,
}  # how each is called

INTRODUCTION = """Made from the docstrings by `docs/api.py`. A name that is not here is internal,
whatever it looks like, and may change.
"""
_BEATEN = "the row that surely beats it; with the reason `replaced`, that beats the row in its place"
_ROW = {"probability": "that no other row beats it", "probability_error": "how far the truth may lie from it; 0: exact"}
_RANGE = {"x.low": "the least value that attribute `x` may have", "x.high": "the greatest", "x.mean": "the mean"}
COLUMNS = {
    "Changes": {
        "query": "of several queries: the name of the one that is answered",
        "time": "the tick of the change",
        "arrived": "the row's own time, where its column is called `time`",
        "change": "`enter`, `leave` or `update`",
        **_ROW,
        "reason": "of a leave: `expired`, `beaten`, `less likely`, `replaced`, `removed` or `begun anew`",
        "beaten_by": f"the id of {_BEATEN}",
        "beaten_by_time": "the time of that row",
        "why": "of a run with --explain: JSON that explains the row at the end of its batch",
    },
    "Answers": {
        **_ROW,
        "certainty": "`certain`, `likely` or `possible`; where an answer is asked for",
        "stands_for": "with `top`: for how many rows it stands",
        "row": "of `fl.skyline` with a query: the row's label or position",
        "batch": "of `answer/current.parquet`: the last batch that has changed the answer",
    },
    "Rejects": {
        "query": "of several queries: the name of the one that could not take it",
        "row": "the row as it came, in JSON",
        "reason": "why it could not be taken",
        "file": "the file, or topic and partition, that it came from",
        "line": "the line there, or the offset",
        "batch": "the number of its batch",
    },
    "Health: one row for each group and batch": {
        "query": "of several queries: the name of the one whose group it is",
        "batch": "the number of the batch",
        "seconds": "how long the batch took",
        "time": "what the clock of the group has come to",
        "rows": "rows that came",
        "rejected": "rows that could not be taken",
        "held": "rows that run ahead of their group, and wait for others",
        "released": "rows that were held, and entered",
        "late": "rows from behind the clock",
        "expired": "late rows that had expired by then, and did not enter",
        "outside_limits": "values outside their limits",
        "incomplete": "rows with missing values",
        "screened": "rows that cannot matter, dropped before they reached their group",
        "waiting": "rows that wait for the clock, now",
        "live": "rows that can still matter, now",
        "answer": "rows in the answer, now",
        "conflicts": "copies that are both kept, since others were dropped because of them",
        "inexact": "rows of whose probability only bounds are known, now",
        "undecided": "those of them whose bounds lie on both sides of alpha, now",
        "revised": "rows whose missing values a later reading has revised",
        "unwatched": "rows whose missing values no reading will revise, since too many are open",
        "sensors_forgotten": "sensors that left with what they had read, since there were too many",
        "stale": "with `latest`: rows older than what is known of their id",
        "removed": "with `latest`: rows that removals ended",
        "markers": "with `latest`: ids without a row whose last stamp is kept, now",
        "clipped": "probability that revised values had outside what they could become",
        "scores": "of values that were hidden and imputed: sums as JSON, see `monitor.scores()`",
    },
    "`near/`: rows that are in or may be": {
        "time": "the end of the batch",
        "inside": "whether it is in the answer",
        "certainty": "`certain`, `likely` or `possible`",
        **_ROW,
        **_RANGE,
        "why": "JSON that explains the row",
    },
    "`next/` and `ask_next`: what to measure": {
        "time": "the end of the batch",
        "rank": "the first one changes most",
        "attribute": "which attribute of the row",
        "changes": "how many rows would enter or leave, on average",
        "low": "the least value that it may have",
        "high": "the greatest",
        "mean": "the mean",
        "sentence": "all this in words",
    },
}


def page() -> str:
    """The whole reference."""
    parts = ["# API\n", INTRODUCTION]
    shown: list[Any] = []
    for prefix, room in ROOMS.items():
        parts.append(f"## {room.__name__}\n")
        for name in sorted(names_of(room), key=lambda name: (not name[0].islower(), name)):
            thing = getattr(room, name)
            if not inspect.ismodule(thing) and not any(thing is each for each in shown):  # once, where it is first
                shown.append(thing)
                parts.append(entry(prefix + name, thing))
    return "\n".join([*parts, columns()])


def columns() -> str:
    """The columns of all tables that come out."""
    parts = ["## Columns\n", "Beside these: the query's own columns, under its names.\n"]
    for title, about in COLUMNS.items():
        lines = "\n".join(f"| `{name}` | {text} |" for name, text in about.items())
        parts.append(f"### {title}\n\n| column | what it holds |\n|---|---|\n{lines}\n")
    return "\n".join(parts)


def names_of(room: Any) -> list[str]:
    """What a room offers; `errors` all that it defines."""
    if hasattr(room, "__all__"):
        return list(room.__all__)
    return [name for name, thing in vars(room).items() if inspect.isclass(thing) and thing.__module__ == room.__name__]


def entry(name: str, thing: Any) -> str:
    """One class, function or alias."""
    if not inspect.isclass(thing) and not inspect.isroutine(thing):
        return f"### `{name}`\n\n`{re.sub(r'[a-z_]+[.]', '', str(thing))}`\n"
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return f"### `{name}`\n\n{docstring(thing)}\n"
    if inspect.isclass(thing) and getattr(thing, "_is_protocol", False):  # what it promises stands in its module
        return f"### `{name}`\n\n{docstring(inspect.getmodule(thing))}\n\n{docstring(thing)}\n{members(thing)}"
    text = f"### `{name}{signature(thing)}`\n\n{docstring(thing)}\n"
    return text + members(thing) if inspect.isclass(thing) else text


def fields(thing: type) -> list[tuple[str, str, str]]:
    """The public fields of a class, their types, and what is written below or beside each."""
    source = textwrap.dedent(inspect.getsource(thing))
    (made,) = ast.parse(source).body
    assert isinstance(made, ast.ClassDef)
    found, lines = [], source.splitlines()
    for each, below in zip(made.body, [*made.body[1:], None], strict=True):
        if not isinstance(each, ast.AnnAssign) or not isinstance(each.target, ast.Name):
            continue
        about = ""
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            about = inspect.cleandoc(below.value.value)
        elif "  # " in (line := lines[(each.end_lineno or each.lineno) - 1]):
            about = line.rpartition("  # ")[2]
        if not each.target.id.startswith("_"):
            found.append((each.target.id, ast.unparse(each.annotation), about))
    return found


def attributes(thing: type) -> list[tuple[str, str, str]]:
    """What `__init__` sets, with a text below."""
    if "__init__" not in vars(thing) or hasattr(thing, "__dataclass_fields__"):
        return []
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(thing.__init__))).body  # type: ignore[misc]
    assert isinstance(made, ast.FunctionDef)
    found = []
    for each, below in pairwise(made.body):
        target = (
            each.target
            if isinstance(each, ast.AnnAssign)
            else each.targets[0]
            if isinstance(each, ast.Assign)
            else None
        )
        text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
        if isinstance(target, ast.Attribute) and isinstance(text, str):
            kind = f": {ast.unparse(each.annotation)}" if isinstance(each, ast.AnnAssign) else ""
            found.append((target.attr, kind, text))
    return found


def members(thing: type) -> str:
    """The public fields, attributes, methods and properties of a class, and of those that it is made from."""
    text = "".join(f"\n- `.{name}: {kind}`: {' '.join(about.split())}\n" for name, kind, about in fields(thing))
    text += "".join(f"\n- `.{name}{kind}`: {about}\n" for name, kind, about in attributes(thing))
    inherited = [each for each in thing.__mro__[1:] if each.__module__ == thing.__module__]
    for key, member in {**{k: v for each in inherited[::-1] for k, v in vars(each).items()}, **vars(thing)}.items():
        plain = member.__func__ if isinstance(member, classmethod) else member
        value = isinstance(plain, property | cached_property)
        if key.startswith("_") or not (inspect.isfunction(plain) or value):
            continue
        shown = f".{key}" if value else f".{key}{signature(plain)}"
        about = docstring(getattr(plain, "fget", None) or getattr(plain, "func", None) or plain)
        text += f"\n- `{shown}`: {about.replace(chr(10), chr(10) + '  ')}\n" if about else f"\n- `{shown}`\n"
    return text


def signature(thing: Any) -> str:
    """As it is called, without self."""
    try:
        given = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    kept = [each for name, each in given.parameters.items() if name not in ("self", "cls")]
    shown = str(given.replace(parameters=kept, return_annotation=inspect.Signature.empty))
    shown = re.sub(r"<function (\w+) at 0x\w+>", r"\1", shown).replace("<factory>", "…")
    shown = re.sub(r"ForwardRef\('(\w+)'\)", r"\1", shown)
    return re.sub(r""": (['"])(.*?)\1(?=[,)]| =)""", r": \2", shown)  # annotations are texts


def docstring(thing: Any) -> str:
    """The docstring, examples as code."""
    lines, out, code = (inspect.getdoc(thing) or "").splitlines(), [], False
    for line in lines:
        example = line.startswith((">>>", "...")) or (code and line.strip() != "")
        if example != code:
            out.append("```python" if example else "```")
        code = example
        out.append(line)
    return "\n".join([*out, "```"] if code else out)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
