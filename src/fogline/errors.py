"""Errors and warnings.

Every error that Fogline raises on purpose is a `FoglineError`. Its text names what was wrong, what was there, and the
way out.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class FoglineError(Exception):
    """Anything Fogline refuses to do."""


class QueryError(FoglineError, ValueError):
    """The query itself is wrong, or does not fit the rows."""


class RuleError(FoglineError, ValueError):
    """A rule cannot be read, or does not fit the history."""


class HistoryError(FoglineError, ValueError):
    """The history, or a repository made of it, does not fit the query."""


class HistoryWarning(UserWarning):
    """The history was fitted, and what can be learnt of it is worth little."""


class RowsRejectedWarning(UserWarning):
    """A monitor has rejected rows: how many of a call, why, and one of them. Once for each reason."""


class RowsError(FoglineError, ValueError):
    """The rows as a whole cannot be taken (a single bad row is rejected instead, and disturbs nothing)."""


class ClockError(FoglineError, ValueError):
    """Time would have to run backwards, or a row comes from the future."""


class SnapshotError(FoglineError, ValueError):
    """The saved state is not one this query can go on from."""


class LimitError(FoglineError):
    """A group has become larger than it may."""


class SinkError(FoglineError):
    """A place where a run's batches go cannot take them."""


def other_format(what: str, found: int, known: int, way_out: str) -> str:
    """The error's text for what another version of Fogline has written; `way_out`: what else can be done.

    >>> other_format("this snapshot", 8, 7, "take a new one")[:59]
    'this snapshot has format 8; this version of Fogline reads 7'
    """
    newer = isinstance(found, int) and found > known
    return (
        f"{what} has format {found}; this version of Fogline reads {known}. It was written by "
        f"{'a newer Fogline: install that one' if newer else 'an older Fogline: go on with that one'}, or {way_out}."
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A second line of an error, with the known name that is nearest; empty: none is near.

    >>> did_you_mean("tmep", ["temp", "light"])
    "\\nDid you mean 'temp'?"
    """
    guess = get_close_matches(str(name), list(known), n=1)
    return f"\nDid you mean {guess[0]!r}?" if guess else ""
