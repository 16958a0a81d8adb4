"""What does complete history know about a missing value?"""

from fogline.errors import HistoryError

METHODS = ("held-out", "paper")  # ways to discover rules
PLAIN = ("last", "mean", "others")  # ways to do without
VALUES = 64  # of a distribution that a repository gives


def check_method(method: str) -> None:
    """An error if there is no such method."""
    if method not in (*METHODS, *PLAIN):
        raise HistoryError(f"method is {method!r}; it may be {', '.join(map(repr, (*METHODS, *PLAIN)))}.")
