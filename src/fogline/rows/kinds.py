"""Which Arrow types has a stream shown so far? Answers are given in them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Kinds:
    """The types of what names rows, and of their times."""

    time: pa.DataType | None = None
    id: pa.DataType | None = None
    by: tuple[pa.DataType | None, ...] = ()
    version: pa.DataType | None = None
