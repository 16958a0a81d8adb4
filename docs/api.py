"""How is the API reference made? From the docstrings, of everything that is public.

python docs/api.py        writes docs/api.md
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import fogline
import fogline.impute
import fogline.plot
import fogline.spark

PAGE = Path(__file__).with_name("api.md")
ROOMS = {
    "fl.": fogline,
    "fogline.impute.": fogline.impute,
    "fl.plot.": fogline.plot,
    "fl.spark.": fogline.spark,
}  # how each is called


def page() -> str:
    """The whole reference."""
    parts = ["# API\n", "Made from the docstrings by `docs/api.py`.\n"]
    shown: list[Any] = []
    for prefix, room in ROOMS.items():
        parts.append(f"## {room.__name__}\n")
        for name in sorted(room.__all__, key=lambda name: (not name[0].islower(), name)):
            thing = getattr(room, name)
            if not any(thing is each for each in shown):  # once, where it is first
                shown.append(thing)
                parts.append(entry(prefix + name, thing))
    return "\n".join(parts)


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


def members(thing: type) -> str:
    """The public methods and properties of a class."""
    text = ""
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
