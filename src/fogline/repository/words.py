"""Which words does a column hold, and which code does each have?

Words lie as Arrow holds texts: all letters in one array, and where each word ends in another. So a million of them are
two files that are mapped, and no process reads them before it looks one up. Two vocabularies are joined by hashing, in
time linear in both.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fogline.arrays import Floats, Ints
from fogline.repository.sensors.state import sensor_names
from fogline.rows.text import is_text

TEXTS = pa.large_string()


class Words:
    """Distinct texts; the code of each is its place."""

    def __init__(self, texts: pa.Array) -> None:
        self.texts = texts  # TEXTS, without nulls

    @classmethod
    def of(cls, words: Iterable[str]) -> Words:
        """Words from Python."""
        return cls(pa.array(words, TEXTS))

    @classmethod
    def from_arrays(cls, ends: Ints, letters: NDArray[np.uint8]) -> Words:
        """The inverse of `arrays`: nothing is copied."""
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters)]
        return cls(pa.Array.from_buffers(TEXTS, len(ends) - 1, buffers))

    def arrays(self) -> tuple[Ints, NDArray[np.uint8]]:
        """(words + 1,) where each ends, from 0 on; and all letters."""
        if not len(self.texts):
            return np.zeros(1, np.int64), np.empty(0, np.uint8)
        _, ends, letters = self.texts.buffers()
        at = np.frombuffer(ends, np.int64)[self.texts.offset : self.texts.offset + len(self.texts) + 1]
        pool = np.frombuffer(letters, np.uint8) if letters is not None else np.empty(0, np.uint8)
        return at - at[0], pool[at[0] : at[-1]]

    def __len__(self) -> int:
        return len(self.texts)

    def find(self, asked: pa.Array) -> Ints:
        """(n,) the codes of texts; -1: not among the words. Each text is looked up by itself: for few texts."""
        return np.array([self._codes.get(each, -1) for each in asked.cast(pa.large_binary()).to_pylist()], np.int64)

    @cached_property
    def _codes(self) -> dict[bytes, int]:
        """Made when a word is looked up for the first time. By bytes: a text that is no text is no word."""
        return {word: k for k, word in enumerate(self.texts.cast(pa.large_binary()).to_pylist())}

    def joined(self, more: Words) -> tuple[Words, Ints]:
        """These words and then the new ones of `more`; and the codes of all words of `more` in that."""
        there = pc.index_in(more.texts, value_set=self.texts)
        new = there.is_null().to_numpy(zero_copy_only=False)
        codes = np.asarray(there.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
        codes[new] = len(self) + np.arange(int(new.sum()))
        return Words(pa.concat_arrays([self.texts, more.texts.filter(pa.array(new))])), codes


def sorted_words(texts: pa.Array) -> Words:
    """The distinct ones of these texts, in their order: the same wherever they come from."""
    return _ranked(pc.unique(texts).drop_null())[1]


def coded(column: pa.Array) -> tuple[Floats, Words]:
    """(n,) codes of texts, or of whole numbers as texts, NaN where there is none; and the words, in their order."""
    encoded = column.dictionary_encode()
    rank, words = _ranked(encoded.dictionary.cast(TEXTS))
    return recoded(encoded.indices.to_numpy(zero_copy_only=False), rank), words


def _ranked(distinct: pa.Array) -> tuple[Ints, Words]:
    """(n,) the codes of distinct texts when they are in order; and the words."""
    order = pc.array_sort_indices(distinct)
    rank = np.empty(len(distinct), np.int64)
    rank[order.to_numpy()] = np.arange(len(distinct))
    return rank, Words(distinct.take(order))


def recoded(codes: Any, table: Any) -> Floats:
    """(n,) codes (NaN: none) exchanged by a table: code k becomes table[k]."""
    wide = np.append(np.asarray(table, np.float64), np.nan)
    return np.asarray(wide[np.nan_to_num(np.asarray(codes, np.float64), nan=-1.0).astype(np.int64)], np.float64)


def as_texts(column: pa.Array) -> pa.Array:
    """Values as the texts by which they are called, as sensors are: 5, 5.0 and "5" are one. Infinite: missing."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_text(column.type) or pa.types.is_integer(column.type) or pa.types.is_null(column.type):
        return column.cast(TEXTS)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_finite(column), column, None)
    encoded = column.dictionary_encode()
    called = pa.array([name for (name,) in sensor_names(encoded.dictionary.to_pylist())], TEXTS)
    return called.take(encoded.indices)
