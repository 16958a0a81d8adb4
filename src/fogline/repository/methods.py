"""By which methods may a repository be fitted?"""

from __future__ import annotations

from fogline.errors import HistoryError

METHODS = ("held-out", "paper")  # ways to discover rules
PLAIN = ("last", "mean", "others")  # ways to do without
VALUES = 64  # of a distribution that a repository gives


def check_method(method: str) -> None:
    """Is it one we know?"""
    if method not in (*METHODS, *PLAIN):
        raise HistoryError(f"method is {method!r}; it may be {', '.join(map(repr, (*METHODS, *PLAIN)))}.")
