"""What has been worked out about these rows already, by another reader of them?

Several queries may look at one slice of a stream. A column is read for the first that asks; the others get the same
result. A key names a function and all that its result depends on beside the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Once:
    """Results about one slice of rows.

    >>> once = Once()
    >>> once.get("length", lambda: 3), once.get("length", lambda: 4)
    (3, 3)
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made under this key, or is now. It is shared: none of its readers may change it."""
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found
