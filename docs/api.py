"""How is the API reference made? From the docstrings, of everything that is public.

python docs/api.py        writes docs/api.md
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
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


def page() -> str:
    """The whole reference."""
    parts = ["# API\n", "Made from the docstrings by `docs/api.py`.\n"]
    shown: list[Any] = []
    for prefix, room in ROOMS.items():
        parts.append(f"## {room.__name__}\n")
        for name in sorted(names_of(room), key=lambda name: (not name[0].islower(), name)):
            thing = getattr(room, name)
            if not inspect.ismodule(thing) and not any(thing is each for each in shown):  # once, where it is first
                shown.append(thing)
                parts.append(entry(prefix + name, thing))
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


def members(thing: type) -> str:
    """The public fields, methods and properties of a class."""
    text = "".join(f"\n- `.{name}: {kind}`: {' '.join(about.split())}\n" for name, kind, about in fields(thing))
    for key, member in vars(thing).items():
        plain = member.__func__ if isinstance(member, classmethod) else member
        if key.startswith("_") or not (inspect.isfunction(plain) or isinstance(plain, property)):
            continue
        shown = f".{key}" if isinstance(plain, property) else f".{key}{signature(plain)}"
        about = docstring(plain.fget if isinstance(plain, property) else plain)
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
