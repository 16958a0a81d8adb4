"""Which columns of a file name rows, show their times, and may be compared?

Guesses, for `fogline init`: a person looks at them before they count. What a column holds goes before what it is
called; a column of texts most of which are numbers holds numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogline.arrays import Floats
from fogline.errors import FoglineError, RowsError
from fogline.files.cells import as_instants, format_of
from fogline.query import duration
from fogline.rows.cells import is_text, read_numbers
from fogline.rows.clock import read_times
from fogline.rows.table import joined_column

LOOKED = 100_000  # rows
COMPARED = 4  # attributes: of more, nearly every row is unbeaten
READINGS = 20  # of a sensor in a lifetime
MOST = 0.9  # of the cells of a column of times can be read so
APART = 0.9  # of the rows have a name and a time that no other has
MISSING = 0.5  # of the rows lack what is compared only where nothing else is left
FEW = 3  # different values at least, of what is compared
NUMBERS = 0.9  # of the texts of a column that holds numbers are numbers
LEVELS = 10  # different values at least, among which a sentinel stands out …
OFTEN = 5, 0.0005  # … that is there so many times, and in so many of the rows
SPREAD = 0.01  # of the others lie beyond their usual range, at each end; …
NEAR, FAR = 0.1, 0.25  # … so far it is away from them, in such ranges: where it is all nines, and else

_NAMES = (
    r"(^|_| )(id|ids|name|key|tag|sensor|device|station|mote|room|machine|unit|node|site|asset|meter|player|symbol|"
    r"raum|gerät|geraet|messstelle|standort|maschine|anlage)s?$"
)
_TIMES = (
    r"(^|_| )(time|timestamp|ts|date|datetime|when|epoch|minute|second|hour|day|month|year|t|"
    r"zeit|zeitpunkt|zeitstempel|datum|uhrzeit)(_?(ms|us|s|utc))?$"
)
_LESS = r"(^|_| )(price|cost|costs|latency|delay|error|errors|loss|distance|rank|age|wait|defects)$"
_MORE = r"(^|_| )(score|rating|points|revenue|profit|quality|gain|speed|goals)$"
_STEPS = ("1 second", "5 seconds", "10 seconds", "30 seconds", "1 minute", "5 minutes", "10 minutes", "30 minutes",
          "1 hour", "2 hours", "6 hours", "12 hours", "1 day", "7 days", "30 days", "365 days")  # fmt: skip

_EPOCHS = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6}  # since 1970, by how many there are in a second
_BETWEEN = 631_152_000, 4_102_444_800  # 1990 and 2100, in seconds


class Suspect(NamedTuple):
    """A value that may stand for missing ones."""

    value: float
    times: int
    low: float  # of the other values
    high: float

    def __str__(self) -> str:
        return f"{self.value:.10g}"


@dataclass(slots=True)
class Guess:
    """What a query might ask of a file."""

    columns: list[str]
    id: str | None = None
    time: str | None = None
    attributes: dict[str, str] = field(default_factory=dict)  # name -> max or min
    sure: set[str] = field(default_factory=set)  # attributes whose direction their name shows
    others: list[str] = field(default_factory=list)  # more that could be compared
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    lifetime: str | float = "1 hour"
    repeats: bool = False  # whether ids come again
    time_format: str | None = None  # of times that are texts, where they are not ISO 8601
    epoch: str | None = None  # what times that are numbers count since 1970
    odd: dict[str, Counter[str]] = field(default_factory=dict)  # of columns of numbers: the texts that are none
    suspects: dict[str, Suspect] = field(default_factory=dict)
    missing: dict[str, float] = field(default_factory=dict)  # name -> share of the rows


def guess(rows: pa.Table, id: str | None = None, time: str | None = None) -> Guess:
    """The columns of these rows, by what they hold and are called; `id` and `time` may be known."""
    names = [name for name in rows.schema.names if not name.startswith("_")]
    for given in (id, time):
        if given is not None and given not in names:
            raise FoglineError(f"there is no column {given!r}; there are {', '.join(names)}.")
    looked = rows.slice(0, LOOKED)
    times = {name: found for name in names if (found := _times(looked, name)) is not None}
    out = Guess(names)
    out.time = time or _best({name: _time_score(name, looked, found) for name, found in times.items() if name != id})
    numbers = {name: found for name in names if (found := _numbers(looked, name, out.odd)) is not None}
    free = [name for name in names if name != out.time]
    scores = {name: _id_score(name, looked, name in out.odd) for name in free}
    out.id = id or _best(
        {name: score + int(score > 0 and _sets_apart(looked, name, out.time)) for name, score in scores.items()}
    )
    can = [name for name in numbers if name not in (out.id, out.time) and _compares(numbers[name])]
    can = [name for name in can if not _is(name, _TIMES) and not _is(name, _NAMES)]
    out.missing = {name: float(np.isnan(numbers[name]).mean()) for name in can}
    can.sort(key=lambda name: out.missing[name] > MISSING)  # stable: the others stay in their order
    for name in can[:COMPARED]:
        out.attributes[name] = "min" if _is(name, _LESS) else "max"
    out.sure = {name for name in out.attributes if _is(name, _LESS) or _is(name, _MORE)}
    out.others = can[COMPARED:]
    out.ranges = {name: (float(np.nanmin(numbers[name])), float(np.nanmax(numbers[name]))) for name in can}
    out.suspects = {name: each for name in can if (each := _suspect(numbers[name])) is not None}
    out.odd = {name: found for name, found in out.odd.items() if name in can and found}
    if out.id is not None:
        out.repeats = pc.count_distinct(looked[out.id]).as_py() < looked.num_rows
    if out.time is not None and is_text(rows.schema.field(out.time).type):
        out.time_format = format_of(_column(looked, out.time))
    if out.time is not None and out.time in times:
        out.epoch = _epoch(times[out.time]) if _counts(rows.schema.field(out.time).type) else None
        out.lifetime = _lifetime(looked, out, times[out.time])
    return out


def _is(name: str, words: str) -> bool:
    return re.search(words, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()) is not None


def _best(scores: dict[str, int]) -> str | None:
    """The name with the highest score above 0; the first of equals."""
    found = max(scores, key=lambda name: scores[name], default=None)
    return found if found is not None and scores[found] > 0 else None


def _column(rows: pa.Table, name: str) -> pa.Array:
    column = rows[name]
    return joined_column(column.chunks or [pa.array([], column.type)], name)


def _times(rows: pa.Table, name: str) -> Floats | None:
    """A column as instants, where nearly all of it can be read so; texts that are plain numbers are none."""
    kind = rows.schema.field(name).type
    stamps, numbers = pa.types.is_timestamp(kind) or pa.types.is_date(kind), pa.types.is_floating(kind)
    if not (is_text(kind) or stamps or pa.types.is_integer(kind) or numbers):
        return None
    column = _column(rows, name)
    if numbers and not _is(name, _TIMES) and _epoch(column.to_numpy(zero_copy_only=False)) is None:
        return None
    if is_text(kind) and (written := format_of(column)) is not None:
        column = as_instants(column, written, None)  # some may be written otherwise, as ISO 8601
    try:
        read = read_times(column, name)
    except RowsError:
        return None
    if is_text(kind) and (read.kind is None or not pa.types.is_timestamp(read.kind)):
        return None
    return read.value if np.isfinite(read.value).mean() > MOST else None


def _time_score(name: str, rows: pa.Table, times: Floats) -> int:
    """Timestamps are times; numbers are, where their name states it, they count from 1970, or they never fall."""
    known = times[np.isfinite(times)]
    rising = bool(len(known) > 1 and (np.diff(known) >= 0).mean() > 0.99 and known[-1] > known[0])
    stamps = not _counts(rows.schema.field(name).type)
    named, since = _is(name, _TIMES), not stamps and _epoch(times) is not None
    if stamps or named or since:
        return 8 * int(stamps) + 4 * int(named) + 3 * int(since) + 2 * int(rising)
    return int(rising and not _is(name, _NAMES))


def _epoch(times: Floats) -> str | None:
    """What numbers count since 1970, if nearly all of them lie between 1990 and 2100 then."""
    known = times[np.isfinite(times)]
    for unit, each in _EPOCHS.items():
        if len(known) and ((known >= _BETWEEN[0] * each) & (known < _BETWEEN[1] * each)).mean() > MOST:
            return unit
    return None


def _id_score(name: str, rows: pa.Table, numbers: bool) -> int:
    """Texts and whole numbers may name rows; best those that come again, by a name that states it.

    `numbers`: its texts are numbers, but for a few.
    """
    kind = rows.schema.field(name).type
    if numbers and not _is(name, _NAMES):
        return 0
    whole = pa.types.is_integer(kind) or (pa.types.is_floating(kind) and _all_whole(_column(rows, name)))
    if not (is_text(kind) or whole or pa.types.is_dictionary(kind)):
        return 0
    distinct, named = int(pc.count_distinct(rows[name]).as_py()), _is(name, _NAMES)
    again = 1 <= distinct <= rows.num_rows / 2
    if whole:
        return 4 + 2 * int(again) if named else 0
    return 2 + 4 * int(named) + 2 * int(again)


def _sets_apart(rows: pa.Table, name: str, time: str | None) -> bool:
    """Whether hardly any two rows of one time have the same name; of one wind direction many may have."""
    pairs = rows.select([name] if time is None else [name, time])
    return bool(pairs.group_by(pairs.schema.names).aggregate([]).num_rows >= APART * rows.num_rows)


def _all_whole(values: pa.Array) -> bool:
    """Whether numbers are whole, as those of JSON are that may be followed by others."""
    there = values.drop_null()
    return len(there) > 0 and bool(pc.all(pc.equal(pc.floor(there), there)).as_py())


def _numbers(rows: pa.Table, name: str, odd: dict[str, Counter[str]]) -> Floats | None:
    """(n,) the numbers of a column; None: it holds others. `odd` gets to know the texts among them that are none."""
    kind = rows.schema.field(name).type
    if is_text(kind):
        texts = _column(rows, name)
        values, bad = read_numbers(texts)
        if np.isfinite(values).sum() < NUMBERS * (len(texts) - texts.null_count) or not np.isfinite(values).any():
            return None
        odd[name] = Counter(texts.filter(pa.array(bad)).to_pylist())
        return values
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    return np.array(_column(rows, name).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _compares(values: Floats) -> bool:
    """Whether there are values enough to be compared: neither all missing nor a mark of one or two kinds."""
    there = values[np.isfinite(values)]
    return len(there) > 0 and len(np.unique(there)) >= FEW


def _suspect(values: Floats) -> Suspect | None:
    """A value at an end of the range that may stand for missing ones: often there, and far from all others.

    What is written with nines alone needs not be so far, nor -1 where nothing else is below 0.
    """
    there = values[np.isfinite(values)]
    for end in (np.min, np.max) if len(there) else ():
        value = float(end(there))
        others = there[there != value]
        times = len(there) - len(others)
        if times < max(OFTEN[0], OFTEN[1] * len(there)) or len(np.unique(others)) < LEVELS:
            continue
        low, high = np.quantile(others, (SPREAD, 1 - SPREAD))
        away = float(np.min(np.abs(others - value))) / (high - low or np.ptp(others))
        nines = abs(value) >= 99 and set(f"{abs(value):.10g}") <= {"9", "."}
        if (value == -1 and others.min() >= 0) or away > (NEAR if nines else FAR):
            return Suspect(value, times, float(others.min()), float(others.max()))
    return None


def _counts(kind: pa.DataType) -> bool:
    """Whether a clock of this type counts, and shows no dates."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _lifetime(rows: pa.Table, found: Guess, times: Floats) -> str | float:
    """About so many readings of a sensor as `READINGS`, rounded to a length that people use."""
    step, counts = _usual_step(rows, found, times), _counts(rows.schema.field(str(found.time)).type)
    if step is None:
        return READINGS if counts else "1 hour"
    if counts and found.epoch is None:
        return _round(READINGS * step)
    micros = READINGS * step * unit_of(found.epoch)
    usual = next((each for each in _STEPS if duration(each) >= micros), _STEPS[-1])
    return usual if found.epoch is None else int(duration(usual) / unit_of(found.epoch))


def unit_of(epoch: str | None) -> float:
    """Microseconds in what times count; they count these, where nothing else is known."""
    return 1.0 if epoch is None else 1e6 / _EPOCHS[epoch]


def _usual_step(rows: pa.Table, found: Guess, times: Floats) -> float | None:
    """The median time between two readings of a sensor, or between two rows where ids do not come again."""
    order = np.argsort(times, kind="stable")
    if found.id is not None and found.repeats:
        code = np.asarray(
            _column(rows, found.id).dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        )
        order = np.lexsort((times, code))
        same = code[order][1:] == code[order][:-1]
    else:
        same = np.ones(max(len(order) - 1, 0), np.bool_)
    steps = np.diff(times[order])[same]
    steps = steps[np.isfinite(steps) & (steps > 0)]
    return float(np.median(steps)) if len(steps) else None


def _round(length: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, …

    >>> _round(80.0), _round(3.0)
    (100, 5)
    """
    power = 10.0 ** np.floor(np.log10(length))
    chosen = next(each * power for each in (1, 2, 5, 10) if each * power >= length * (1 - 1e-9))
    return int(chosen) if chosen >= 1 else float(chosen)
