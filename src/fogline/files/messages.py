"""Which rows do messages hold whose values are JSON objects?

The parser is that of JSON lines (`files.objects`): many messages at once, and where that fails one by one. Each message
gives one row, in their order: one that holds no object is a row with its text and the reason, as a line of a file that
cannot be read is. So no message stops a stream.

Messages are parsed together only if each begins with { and ends with } and has no line break within: then there are as
many objects as messages only if each message is one. What a message gives does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Flags, Ints
from fogline.files.blocks import Block, Raw
from fogline.files.objects import as_object, at_once, from_objects
from fogline.files.one_file import fitted, unread
from fogline.files.settled import Layout
from fogline.rows.cells import is_text

SIZE = 8 * 2**20  # bytes of values that are parsed at once
SHOWN = 10_000  # bytes of a message that are shown in a reject
EMPTY = "the message is empty"
NO_VALUE = "the message has no value (a tombstone)"
NOT_TEXT = "the message cannot be read: it is not UTF-8 text"
NOT_PARSED = "the message cannot be read: it has no value, or one that its schema does not fit"
NO_OBJECT = "the message cannot be read: it is no JSON object"


class Messages(NamedTuple):
    """Some messages, one beside the other."""

    value: pa.Array  # (n,) binary, null: none; or structs that were parsed already, null fields only: they could not be
    place: pa.Array  # (n,) text: where each was read, such as topic and partition
    number: pa.Array  # (n,) int64: which one it was there
    beside: Mapping[str, pa.Array]  # columns of the stream that do not come from the value

    def slice(self, begin: int, end: int) -> Messages:
        """Those from `begin` to before `end`."""
        n = end - begin
        beside = {name: each.slice(begin, n) for name, each in self.beside.items()}
        return Messages(self.value.slice(begin, n), self.place.slice(begin, n), self.number.slice(begin, n), beside)


class MessageReader:
    """Reads messages of one stream."""

    def __init__(self, layout: Layout, size: int = SIZE) -> None:
        self.layout, self.size = layout, size
        self.texts = {field.name for field in layout.columns if is_text(field.type)}
        self.stamps: set[str] = set()  # texts that look like instants, so far

    def rows(self, messages: Messages) -> Iterator[pa.RecordBatch]:
        """The rows in the columns of the layout's schema: one for each message, in their order."""
        ends = np.cumsum(_lengths(messages.value))
        begin = 0
        while begin < len(messages.value):
            before = ends[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + self.size, "right")))
            yield self._read(messages.slice(begin, end))
            begin = end

    def _read(self, messages: Messages) -> pa.RecordBatch:
        if pa.types.is_struct(messages.value.type):
            return self._parsed(messages)
        plain = _plain(messages.value)
        fast, slow = np.flatnonzero(plain), np.flatnonzero(~plain)
        raw = self._at_once(messages.value if not len(slow) else messages.value.take(fast)) if len(fast) else None
        if raw is None:
            fast, slow = fast[:0], np.arange(len(messages.value))
        parts = [] if raw is None else [(fast, self._fitted(raw, messages, fast))]
        parts += self._singly(messages, slow) if len(slow) else []
        return _in_order(parts)

    def _parsed(self, messages: Messages) -> pa.RecordBatch:
        names = [field.name for field in messages.value.type]
        columns = dict(zip(names, messages.value.flatten(), strict=True))
        null = np.all([each.is_null().to_numpy(zero_copy_only=False) for each in columns.values()], axis=0)
        bad, good = np.flatnonzero(null), np.flatnonzero(~null)
        parts = []
        if len(good):
            asked = {name: each.take(pa.array(good)) for name, each in columns.items() if name in self.texts}
            parts.append((good, self._fitted(Raw(asked, len(good)), messages, good)))
        if len(bad):
            numbers = messages.number.take(pa.array(bad))
            reasons = [(number, "", NOT_PARSED) for number in numbers.to_pylist()]
            parts.append((bad, unread(self.layout, messages.place.take(pa.array(bad)), reasons)))
        return _in_order(parts)

    def _at_once(self, values: pa.Array) -> Raw | None:
        together = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
        lines = pc.binary_join(together, b"\n")[0].as_py()
        raw = at_once(Block(lines, 1), self.layout.columns, self.texts, self.stamps)
        names = (raw.columns.get(name) for name in self.layout.roles.names) if raw is not None else ()
        # as texts, 7 among fractions would become 7.0, or 7.0 become 7: each message by itself shows what it has
        return None if any(each is not None and pa.types.is_floating(each.type) for each in names) else raw

    def _singly(self, messages: Messages, where: Ints) -> list[tuple[Ints, pa.RecordBatch]]:
        rows, good, bad, reasons = [], [], [], []
        for i in where.tolist():
            value = messages.value[i].as_py()
            try:
                if not value or not value.strip():
                    raise ValueError(NO_VALUE if value is None else EMPTY)
                rows.append(as_object(str(value, "utf-8-sig").encode()))
                good.append(i)
            except (ValueError, RecursionError) as error:
                reasons.append((messages.number[i].as_py(), _shown(value), _reason(error)))
                bad.append(i)
        parts = []
        if good:
            found = np.array(good)
            parts.append((found, self._fitted(from_objects(rows, self.layout.columns, None), messages, found)))
        if bad:
            found = np.array(bad)
            parts.append((found, unread(self.layout, messages.place.take(pa.array(found)), reasons)))
        return parts

    def _fitted(self, raw: Raw, messages: Messages, where: Ints) -> pa.RecordBatch:
        rows = pa.array(where)
        beside = {name: each.take(rows) for name, each in messages.beside.items()}
        whole = raw._replace(columns={**raw.columns, **beside}, lines=messages.number.take(rows).to_numpy())
        return fitted(whole, self.layout, messages.place.take(rows), {})


def _in_order(parts: list[tuple[Ints, pa.RecordBatch]]) -> pa.RecordBatch:
    """Rows with their positions, as one batch."""
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([where for where, _ in parts]), kind="stable")
    return pa.concat_batches([batch for _, batch in parts]).take(pa.array(order))


def _lengths(values: pa.Array) -> Ints:
    if pa.types.is_struct(values.type):
        return np.ones(len(values), np.int64)
    found: Ints = pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _plain(values: pa.Array) -> Flags:
    """(n,) which values are UTF-8 texts from { to } without a line break."""
    whole = values.fill_null(b"")
    length = _lengths(whole)
    found = length > 1
    try:
        whole.cast(pa.large_string() if pa.types.is_large_binary(whole.type) else pa.string())
    except pa.ArrowInvalid:
        found &= np.array([_is_text(each.as_py()) for each in whole], np.bool_)
    if not len(whole) or not length.any():
        return found
    offsets = np.frombuffer(whole.buffers()[1], np.int64 if pa.types.is_large_binary(whole.type) else np.int32)
    begin = offsets[whole.offset : whole.offset + len(whole)].astype(np.int64)
    end = begin + length
    data = np.frombuffer(whole.buffers()[2], np.uint8)
    edge = np.clip(begin, 0, len(data) - 1), np.clip(end - 1, 0, len(data) - 1)
    found &= (data[edge[0]] == ord("{")) & (data[edge[1]] == ord("}"))
    breaks = np.flatnonzero(data[begin[0] : end[-1]] == ord("\n")) + begin[0]
    if len(breaks):
        found[np.searchsorted(begin, breaks, "right") - 1] = False
    return found


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(value: bytes | None) -> str:
    if value is None:
        return ""
    text = value[:SHOWN].decode("utf-8", "replace")
    return text if len(value) <= SHOWN else f"{text}… ({len(value):,} bytes)"


def _reason(error: Exception) -> str:
    text = str(error)
    if isinstance(error, UnicodeDecodeError):
        return NOT_TEXT
    if text in (EMPTY, NO_VALUE):
        return text
    return f"{NO_OBJECT}, but {text.removeprefix('it is ')}" if text.startswith("it is ") else NO_OBJECT
