"""How values look as text, on a terminal and in messages.

An object is shown as a call with its arguments, on one line where that is short. Nothing heavy is imported here:
`fogline --help` needs no Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

WIDTH = 100
_QUOTED = 80  # characters of a value in a reason
UNITS = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}


def printable(text: str, keep: str = "\n") -> str:
    """A text as a terminal may get it: none of its characters moves the cursor, changes colours or reverses the line.

    Texts come from rows. Characters in `keep` stay.

    >>> printable("a\\x1b[31mb\\u202e\\ud800")
    'a\\\\x1b[31mb\\\\u202e\\\\ud800'
    """
    if text.isprintable():
        return text
    return "".join(
        each if each in keep or each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def quoted(value: Any) -> str:
    """A value for a sentence: short, and never an error.

    >>> quoted("x" * 1000)[-30:], quoted("\\ud800")
    ("xxxxxxxxx… (1,002 characters)'", "'\\\\ud800'")
    """
    try:
        text = repr(value)
    except Exception:  # such as an integer of too many digits, or an object that raises one
        return f"a value of type {type(value).__name__}"
    if len(text) <= _QUOTED:
        return text
    end = text[-1] if text[-1] in "'\"" else ""
    return f"{text[: _QUOTED - 30]}… ({len(text):,} characters){end}"


def instant_text(instant: Any) -> str:
    """An instant as a person writes it, and as `fogline answer --at` reads it.

    >>> from datetime import UTC, datetime
    >>> instant_text(530.0), instant_text(0.5), instant_text(datetime(2024, 5, 1, 12, tzinfo=UTC))
    ('530', '0.5', '2024-05-01 12:00:00')
    """
    return f"{instant:.15g}" if isinstance(instant, float) else str(instant).removesuffix("+00:00")


def call(name: str, arguments: Sequence[str]) -> str:
    """A call, as it is written.

    >>> call("Query", ["id='a'", "time='t'"])
    "Query(id='a', time='t')"
    """
    line = f"{name}({', '.join(arguments)})"
    return line if len(line) <= WIDTH else f"{name}(\n{indented(', '.join(arguments))}\n)"


def indented(text: str) -> str:
    """The lines, wrapped and indented."""
    moved = "    "
    lines = (wrap(line, WIDTH, initial_indent=moved, subsequent_indent=moved, break_long_words=False,
                  break_on_hyphens=False) for line in text.splitlines())  # fmt: skip
    return "\n".join(each for line in lines for each in line)


def in_words(microseconds: int) -> str:
    """A length of time in the largest unit that it is a whole number of.

    >>> in_words(7_200_000_000), in_words(5_400_000_000), in_words(1_000_000), in_words(0)
    ('2 hours', '90 minutes', '1 second', '0 seconds')
    """
    units = UNITS if microseconds else {"second": 1}
    unit, size = next((unit, size) for unit, size in units.items() if microseconds % size == 0)
    count = microseconds // size
    return f"{count} {unit}{'' if count == 1 else 's'}"


def count_of(number: int, word: str) -> str:
    """A count and its noun.

    >>> count_of(1, "rule"), count_of(2000, "row")
    ('1 rule', '2,000 rows')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def size_text(size: float) -> str:
    """A number of bytes for people.

    >>> size_text(900), size_text(237_000), size_text(999_700_000), size_text(2.1e9), size_text(1.2e15)
    ('1 KB', '237 KB', '1 GB', '2.1 GB', '1,200 TB')
    """
    for unit, each in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= 0.9995 * each:  # what is rounded to 1,000 is 1 of the next
            number = size / each
            return f"{number:.3g} {unit}" if number < 999.5 else f"{number:,.0f} {unit}"
    return f"{max(size / 1e3, 1):.0f} KB"
