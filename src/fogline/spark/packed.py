"""How does a processor travel without all that it needs?

Before the first batch of a query Spark starts a Python process for each stateful operator, only to ask its processor
for the names and types of its state. What is `Packed` travels as bytes, and is unpacked, with the modules that it
needs, when it is first asked for: that process imports neither the compiler nor the stages, which takes a second.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from pyspark.serializers import CloudPickleSerializer

T = TypeVar("T")


class Packed(Generic[T]):
    """A value that is unpacked where it is used."""

    def __init__(self, value: T) -> None:
        self._values = [value]
        self._bytes = b""

    def get(self) -> T:
        """The value."""
        if not self._values:
            self._values.append(CloudPickleSerializer().loads(self._bytes))
        return self._values[0]

    def __getstate__(self) -> bytes:
        return bytes(CloudPickleSerializer().dumps(self._values[0])) if self._values else self._bytes

    def __setstate__(self, packed: bytes) -> None:
        self._values, self._bytes = [], packed
