"""On which stream is everything measured, and what would be true?

A case is a query, a history R, and a stream whose masked cells are known to the case alone. There are two protocols:

- `honest`: R ends before the stream begins. Nothing of the stream is known, not even its range.
- `paper`: R is drawn at random from the same set. It may hold the very rows whose cells are masked.

Masks are drawn row by row from their own seed. A longer stream begins with the same gaps; a higher rate, or more gaps
per row, only adds to them. So turning one knob changes nothing else.

Synthetic streams have 5,000 seeds, and each row is a copy of a random seed. There are two generators: `uniform`,
`correlated` and `anti` are the paper's (`lab/paper/generator.py`), whose seeds lie anywhere, so that a gap is imputed
by copies of several. `uniform-apart` and so on keep seeds 0.002 apart in every attribute (`fogline.synthetic`): only
there rows within 0.001 in one attribute are always within 0.01 in another, as the paper's rules ask.

Real streams are Parquet files in a folder that the user names; none is part of the repository. A set that stands in for
one of the paper's is reported under its own name. Attributes are scaled to [0, 10] as in the paper: by the range of the
whole set under `paper`, of R alone under `honest` (then the stream may leave [0, 10]). Readings that no working sensor
sends are left out; each set states which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fogline.arrays import Flags, Floats, Ints
from fogline.errors import FoglineError, did_you_mean
from fogline.query import Query
from fogline.synthetic import DISTRIBUTIONS, TOP, copies, seed_points
from lab.paper.generator import SEEDS, dependencies, objects, seed_objects

ID, TIME, SENSOR, AT = "reading", "tick", "sensor", "at"
PROTOCOLS = ("honest", "paper")


class LabError(FoglineError, ValueError):
    """An experiment that cannot be made."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The knobs of the paper at its defaults (Table 9), and some more."""

    alpha: float = 0.5
    d: int | None = None
    """How many attributes; None: the set's own number, 4 if it is synthetic."""
    window: int = 20_000
    history: int = 120_000
    theta: int = 30
    """Rows per tick."""
    m: int = 1
    """Missing cells per incomplete row."""
    xi: float = 0.3
    """Share of incomplete rows."""
    ticks: int = 100
    """How many follow when the window is full."""
    protocol: str = "honest"
    seed: int = 1
    start: int | None = None
    """The row of a real set with which the stream begins; None: as early as the protocol allows."""
    nulls: bool = False
    """Keep rows of a real set that lack values: then the truth about them is unknown."""
    wishes: bool = False
    """Directions that a person would choose, instead of `max` throughout."""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise LabError(f"the protocol is {self.protocol!r}; it may be {' or '.join(PROTOCOLS)}.")
        if not 0 <= self.xi <= 1:
            raise LabError(f"xi is {self.xi!r}; it is the share of incomplete rows, from 0 to 1.")
        if min(self.theta, self.window, self.history) < 1 or self.ticks < 0:
            raise LabError("theta, window and history count rows, from 1 on; ticks counts from 0 on.")

    @property
    def lifetime(self) -> int:
        """Ticks that a row lives: the window then holds as many rows as asked, or just over."""
        return -(-self.window // self.theta)

    @property
    def rows(self) -> int:
        """Rows of the whole stream: to fill the window, and to go on."""
        return (self.lifetime + self.ticks) * self.theta


DEFAULTS = Settings()


@dataclass(frozen=True, eq=False)
class Case:
    """A query, a history, and a stream with its truth."""

    name: str
    settings: Settings
    query: Query
    history: pa.Table = field(repr=False)
    """R: complete rows, the attributes and, where there are any, sensor and at (seconds)."""
    rules: tuple[str, ...] | None
    """The rules the rows are known to obey; None: to be discovered."""
    rows: pa.Table = field(repr=False)
    """The stream: row, tick, sensor, at, attributes with gaps."""
    truth: Floats = field(repr=False)
    """(n, d) the same without gaps; NaN where it is unknown."""

    @property
    def length(self) -> int:
        """Ticks of the stream."""
        return len(self.truth) // self.settings.theta

    @property
    def full(self) -> int:
        """The first tick at which the window is full."""
        return self.settings.lifetime - 1

    def tick(self, k: int) -> pa.Table:
        """The rows of one tick; nothing is copied."""
        return self.rows.slice(k * self.settings.theta, self.settings.theta)

    def ticks(self, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Every tick with its rows, in order."""
        for k in range(begin, self.length if end is None else end):
            yield k, self.tick(k)

    @cached_property
    def gaps(self) -> Flags:
        """(n, d) which cells are missing in the stream."""
        return np.isnan(matrix(self.rows, self.query.names))

    @cached_property
    def incomplete(self) -> Flags:
        """(n,) which rows have a gap."""
        return np.asarray(self.gaps.any(axis=1))

    @cached_property
    def certain(self) -> Flags:
        """(n,) of which rows the truth is known."""
        return np.asarray(~np.isnan(self.truth).any(axis=1))


def build(
    name: str,
    settings: Settings,
    directions: dict[str, str],
    history: pa.Table,
    truth: Floats,
    extra: dict[str, Any],
    rules: tuple[str, ...] | None = None,
) -> Case:
    """A case of complete rows (NaN = really missing): masks, ticks and the query around them."""
    n, names = len(truth), tuple(directions)
    query = Query(attributes=directions, id=ID, time=TIME, lifetime=settings.lifetime, alpha=settings.alpha)
    gaps = mask(truth, settings.xi, settings.m, settings.seed)
    cells = {name: pa.array(truth[:, j], mask=gaps[:, j] | np.isnan(truth[:, j])) for j, name in enumerate(names)}
    order = np.arange(n)
    rows = pa.table({ID: order, TIME: order // settings.theta, **extra, **cells})
    return Case(name, settings, query, history, rules, rows, truth)


def mask(truth: Floats, xi: float, m: int, seed: int) -> Flags:
    """(n, d) which cells to hide: m of each chosen row; rows that lack something anyway are left alone."""
    n, d = truth.shape
    if not 0 < m < d:
        raise LabError(f"m is {m} and there are {d} attributes; at least one cell goes missing, and one stays.")
    which = np.asarray(np.random.default_rng([seed, 1]).random(n) < xi)
    rank = np.random.default_rng([seed, 2]).random((n, d)).argsort(axis=1).argsort(axis=1)
    which &= ~np.isnan(truth).any(axis=1)
    return np.asarray((rank < m) & which[:, None])


def matrix(rows: pa.Table, names: tuple[str, ...]) -> Floats:
    """(n, d) attributes as numbers, NaN = missing."""
    out = np.empty((rows.num_rows, len(names)))
    for j, name in enumerate(names):
        out[:, j] = rows.column(name).to_numpy()
    return out


# ---------------------------------------------------------------------------------------------------- synthetic streams


KINDS = DISTRIBUTIONS
APART = tuple(f"{kind}-apart" for kind in KINDS)
"""The same distributions, seeds 0.002 apart in every attribute."""


def synthetic(kind: str, settings: Settings = DEFAULTS) -> Case:
    """A case of one of the KINDS, or APART. `paper`: R is drawn from a pool that holds the stream's own rows."""
    if kind not in KINDS + APART:
        raise LabError(f"{kind!r} is no kind of synthetic stream; there are {', '.join(KINDS + APART)}.")
    d = 4 if settings.d is None else settings.d
    names = tuple(ascii_uppercase[:d])
    make = (seed_points, copies) if kind in APART else (seed_objects, objects)
    seeds = make[0](kind.removesuffix("-apart"), d, SEEDS, np.random.default_rng([settings.seed, 10]))
    stream, past = (
        np.ascontiguousarray(make[1](seeds, n, np.random.default_rng([settings.seed, part])).T)
        for n, part in ((settings.rows, 11), (settings.history, 12))
    )
    if settings.protocol == "paper":
        pool = np.concatenate((stream, past))
        chosen = np.random.default_rng([settings.seed, 13]).choice(len(pool), settings.history, replace=False)
        past = pool[np.sort(chosen)]
    history = pa.table({name: past[:, j] for j, name in enumerate(names)})
    return build(kind, settings, dict.fromkeys(names, "max"), history, stream, {}, dependencies(names))


# --------------------------------------------------------------------------------------------------------- real streams


Columns = Mapping[str, Floats]
MONTH = 20  # trading days over which prices and volumes are summed up


@dataclass(frozen=True)
class DataSet:
    """One file, and what to take from it."""

    name: str
    file: str
    """Of what is usually at hand, often a slice; …"""
    attributes: tuple[str, ...]
    """In the order in which d takes them."""
    d: int
    sensor: tuple[str, ...] = ()
    """Columns that together name whose reading a row is; none: there is one sensor."""
    time: str | None = None
    """A column of timestamps; None: the rows are counted."""
    minutes: str | None = None
    """A column of minutes to be added."""
    least: tuple[str, ...] = ()
    """Attributes of which a person would want less."""
    stands_for: str | None = None
    """Which of the paper's sets it resembles."""
    sane: Callable[[Columns], Flags] | None = None
    derive: Callable[[pa.Table], pa.Table] | None = None
    extra: tuple[str, ...] = field(default=())
    """Columns that `sane` looks at beside the attributes."""
    whole: str = ""
    """… and of the whole set, as `python -m lab data` converts it: taken before the other."""


def _intel(c: Columns) -> Flags:
    sane = (c["mote_id"] <= 54) & (c["temperature"] < 50) & (c["voltage"] > 2)
    return np.asarray(sane & ~((c["humidity"] <= 0) | (c["humidity"] > 100)))  # a missing value is not insane


def _rooms(c: Columns) -> Flags:
    return np.asarray((c["temperature"] < 50) & (c["co2"] >= 200))


def _prices(table: pa.Table) -> pa.Table:
    """Mean, greatest, least and spread of prices and volumes over each ticker's last month, as the paper's Bid has."""
    ticker = table.column("ticker").to_numpy()
    order = np.lexsort((np.arange(len(ticker)), ticker))
    ends = np.flatnonzero(ticker[order][1:] != ticker[order][:-1]) + 1
    parts, rows = [], []
    for days in np.split(order, ends):
        if len(days) < MONTH:
            continue
        columns = []
        for name in ("close", "volume"):
            seen = np.lib.stride_tricks.sliding_window_view(table.column(name).to_numpy()[days].astype(float), MONTH)
            columns += [seen.std(axis=1), seen.mean(axis=1), seen.max(axis=1), seen.min(axis=1)]
        parts.append(np.stack(columns, axis=1))
        rows.append(days[MONTH - 1 :])
    at = np.concatenate(rows)
    back = np.argsort(at)
    values = np.concatenate(parts)[back]
    kept = table.select(["date", "ticker"]).take(pa.array(at[back]))
    for j, name in enumerate(_BID):
        kept = kept.append_column(name, pa.array(values[:, j]))
    return kept


_BID = ("price_sd", "price_mean", "price_max", "price_min", "sd", "mean", "max", "min")
_GASES = ("pm25", "pm10", "so2", "no2", "o3", "co")
_WEATHER = ("temperature", "pressure", "dew_point", "rain", "wind_speed")
_PLANT = tuple(f"{kind}_{k}" for kind, most in (("l", 10), ("a", 5), ("b", 5), ("c", 5)) for k in range(1, most + 1))

DATA_SETS = {
    data_set.name: data_set
    for data_set in (
        DataSet(
            "intel", "intel_lab", ("temperature", "humidity", "light", "voltage"), 4, ("mote_id",), "timestamp",
            least=("humidity", "voltage"), sane=_intel, extra=("mote_id",), whole="intel_lab_full",
        ),
        DataSet(
            "gas", "gas_home_1min", (*(f"r{k}" for k in range(1, 9)), "temperature", "humidity"), 10, (), "date",
            minutes="minute", least=tuple(f"r{k}" for k in range(1, 9)), whole="gas_home_full",
        ),
        DataSet(
            "pump", "pump_sensor_segments", tuple(f"sensor_{k:02}" for k in range(1, 11)), 10, (), "timestamp",
            whole="pump_sensor_full",
        ),
        DataSet("bid", "bid_full", _BID, 8, least=("price_sd", "sd")),
        DataSet(
            "beijing", "beijing_air", (*_GASES, *_WEATHER), 5, ("station",), "timestamp",
            least=(*_GASES, "rain"),
        ),
        DataSet(
            "room_climate", "room_climate", ("temperature", "humidity", "light1", "light2"), 4, ("location", "node_id"),
            "timestamp", least=("humidity",), stands_for="Intel",
        ),
        DataSet(
            "smart_building_rooms", "smart_building_rooms", ("co2", "humidity", "light", "temperature", "pir"), 4,
            ("room",), "timestamp", least=("co2", "humidity"), stands_for="Intel", sane=_rooms,
        ),
        DataSet(
            "skab_pump", "skab_pump",
            ("accelerometer1_rms", "accelerometer2_rms", "current", "pressure", "temperature", "thermocouple",
             "voltage", "volume_flow_rate"), 8, (), "timestamp",
            least=("accelerometer1_rms", "accelerometer2_rms", "current"), stands_for="Pump",
        ),
        DataSet("production_plant", "production_plant", _PLANT, 10, ("component",), None, stands_for="Pump"),
        DataSet(
            "sp500", "sp500_stocks_5yr", _BID, 8, ("ticker",), "date", least=("price_sd", "sd"), stands_for="Bid",
            derive=_prices,
        ),
    )
}  # fmt: skip


def real(name: str, folder: str | Path, settings: Settings = DEFAULTS) -> Case:
    """A case of one of the DATA_SETS, from its file in `folder`."""
    data_set = data_set_of(name)
    names, values, extra = read(data_set, folder, settings)
    stream, past = _cut(name, values, settings)
    known = values[past] if settings.protocol == "honest" else values
    scaled = scale(values, known)
    history = pa.table(
        {key: column.take(pa.array(past)) for key, column in extra.items()}
        | {key: scaled[past, j] for j, key in enumerate(names)}
    )
    directions = {key: "min" if settings.wishes and key in data_set.least else "max" for key in names}
    kept = {key: column.take(pa.array(stream)) for key, column in extra.items()}
    return build(name, settings, directions, history, scaled[stream], kept)


def data_set_of(name: str) -> DataSet:
    """A data set by its name."""
    if name not in DATA_SETS:
        raise LabError(f"there is no set {name!r}; there are {', '.join(DATA_SETS)}.{did_you_mean(name, DATA_SETS)}")
    return DATA_SETS[name]


def available(folder: str | Path | None) -> list[str]:
    """The sets whose files are in the folder."""
    return [] if folder is None else [each.name for each in DATA_SETS.values() if _path(each, folder).exists()]


def _path(data_set: DataSet, folder: str | Path) -> Path:
    whole = Path(folder) / f"{data_set.whole}.parquet"
    return whole if data_set.whole and whole.exists() else Path(folder) / f"{data_set.file}.parquet"


def is_whole(name: str, folder: str | Path | None) -> bool:
    """Is the whole of a set at hand, and no slice of it?"""
    return (
        folder is not None and bool(whole := data_set_of(name).whole) and (Path(folder) / f"{whole}.parquet").exists()
    )


def read(
    data_set: DataSet, folder: str | Path, settings: Settings
) -> tuple[tuple[str, ...], Floats, dict[str, pa.Array]]:
    """Attributes, their values (n, d) with NaN for missing, and sensor and time; insane rows are left out."""
    path = _path(data_set, folder)
    if not path.exists():
        raise LabError(f"{data_set.name} needs {path.name}, and there is none in {str(folder)!r}.")
    names = data_set.attributes[: data_set.d if settings.d is None else settings.d]
    if settings.d is not None and settings.d > len(data_set.attributes):
        raise LabError(f"{data_set.name} has {len(data_set.attributes)} attributes, not {settings.d}.")
    table = pq.read_table(path)
    table = table if data_set.derive is None else data_set.derive(table)
    values = matrix(table, names)
    good = np.isfinite(values).all(axis=1) if not settings.nulls else np.ones(len(values), np.bool_)
    if data_set.sane is not None:
        asked = (*data_set.attributes, *data_set.extra)
        good &= data_set.sane(dict(zip(asked, matrix(table, asked).T, strict=True)))
    rows = np.flatnonzero(good)
    return names, values[rows], {key: column.take(pa.array(rows)) for key, column in _context(data_set, table).items()}


def _context(data_set: DataSet, table: pa.Table) -> dict[str, pa.Array]:
    """Whose reading it is, and when it was taken, in seconds."""
    at = np.arange(table.num_rows, dtype=np.float64)
    if data_set.time is not None:
        at = table.column(data_set.time).cast(pa.timestamp("us")).cast(pa.int64()).to_numpy() / 1e6
    if data_set.minutes is not None:
        at = at + 60.0 * table.column(data_set.minutes).to_numpy()
    if not data_set.sensor:
        return {AT: pa.array(at)}
    parts = [table.column(key).cast(pa.string()).combine_chunks() for key in data_set.sensor]
    return {SENSOR: pc.binary_join_element_wise(*parts, "-") if len(parts) > 1 else parts[0], AT: pa.array(at)}


def _cut(name: str, values: Floats, settings: Settings) -> tuple[Ints, Ints]:
    """Which rows are the stream, and which are R: complete ones, before it or anywhere."""
    honest = settings.protocol == "honest"
    complete = np.flatnonzero(~np.isnan(values).any(axis=1))
    first = settings.start
    if first is None:
        first = int(complete[min(settings.history, len(complete)) - 1]) + 1 if honest else 0
    before = complete[complete < first] if honest else complete
    if first + settings.rows > len(values) or len(before) < settings.history:
        raise LabError(
            f"{name} has {len(values):,} rows, too few for a stream of {settings.rows:,} from row {first:,} on and a "
            f"history of {settings.history:,}{' before it' if honest else ''}; make window, ticks or history smaller."
        )
    stream = np.arange(first, first + settings.rows)
    if honest:
        return stream, before[-settings.history :]
    chosen = np.random.default_rng([settings.seed, 20]).choice(len(before), settings.history, replace=False)
    return stream, before[np.sort(chosen)]


def scale(values: Floats, reference: Floats) -> Floats:
    """Each attribute so that the reference spans [0, TOP]; one that does not vary becomes 0."""
    low, high = np.nanmin(reference, axis=0), np.nanmax(reference, axis=0)
    return np.asarray((values - low) / np.where(high > low, high - low, 1.0) * TOP)
