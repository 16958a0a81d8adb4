"""Which files do the paper's real sets come from, and how do they become what the lab reads?

The lab reads Parquet files that it is not allowed to bring along. `python -m lab data DIR` looks in DIR for the
publishers' own files, checks their size and columns, and writes them as Parquet into the same folder, under names that
experiments take before slices: then they run at the paper's sizes. Nothing is downloaded; each file's address is named.

| set | file as published | converted |
|---|---|---|
| intel | `data.txt`, MIT CSAIL: words between blanks, no header | `intel_lab_full.parquet` |
| gas | `HT_Sensor_dataset.dat` and `HT_Sensor_metadata.dat`, UCI | `gas_home_full.parquet` |
| bid | a file of operations with prices, Kaggle | `bid_full.parquet` |
| pump | `sensor.csv`, Kaggle | `pump_sensor_full.parquet` |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lab.case import LabError


@dataclass(frozen=True, slots=True)
class Original:
    """A set as its publisher has it."""

    name: str
    files: tuple[str, ...]
    address: str
    columns: tuple[str, ...]
    """Those that are needed, as the first of the files names them; for a file without a header, in their order."""
    rows: int
    """As the paper states, or the publisher; fewer than nine in ten of them is a part of the file."""
    into: str
    convert: Callable[[tuple[Path, ...]], pd.DataFrame]
    note: str = ""


# ------------------------------------------------------------------------------------------------------- reading


INTEL = ("date", "time", "epoch", "mote_id", "temperature", "humidity", "light", "voltage")
GAS = ("id", "time", *(f"R{k}" for k in range(1, 9)), "Temp.", "Humidity")
GAS_DAYS = ("id", "date", "class", "t0", "dt")
BID = ("price_sd", "price_mean", "price_max", "price_min", "sd", "mean", "max", "min")
PUMP = ("timestamp", *(f"sensor_{k:02}" for k in range(1, 11)))


def _intel(files: tuple[Path, ...]) -> pd.DataFrame:
    """In order of time; lines that break off lack their last values."""
    rows = pd.read_csv(files[0], sep=r"\s+", header=None, names=INTEL, on_bad_lines="skip")
    rows["timestamp"] = pd.to_datetime(rows["date"] + " " + rows["time"], format="ISO8601", errors="coerce")
    rows = rows.dropna(subset=["timestamp", "mote_id"]).sort_values("timestamp", kind="stable")
    rows["mote_id"] = rows["mote_id"].astype(np.int32)
    return rows[["timestamp", *INTEL[3:]]]


def _gas(files: tuple[Path, ...]) -> pd.DataFrame:
    """Each row's time is given in hours from the beginning of its induction, whose day and hour are in the metadata."""
    rows, days = (pd.read_csv(file, sep=r"\s+") for file in files)
    if lacking := {*GAS_DAYS} - {*days.columns}:
        raise LabError(f"{files[1].name} lacks the columns {', '.join(sorted(lacking))}.")
    begins = pd.to_datetime(days["date"], format="mixed") + pd.to_timedelta(days["t0"], unit="h")
    began = rows["id"].map(dict(zip(days["id"], begins, strict=True)))
    rows["date"] = began + pd.to_timedelta(rows["time"], unit="h")
    names = {f"R{k}": f"r{k}" for k in range(1, 9)} | {"Temp.": "temperature", "Humidity": "humidity"}
    rows = rows.dropna(subset=["date"]).rename(columns=names).sort_values("date", kind="stable")
    return rows[["date", *names.values()]].assign(minute=0.0)


def _bid(files: tuple[Path, ...]) -> pd.DataFrame:
    """The rows in their order."""
    return pd.read_csv(files[0], usecols=list(BID))[list(BID)]


def _pump(files: tuple[Path, ...]) -> pd.DataFrame:
    rows = pd.read_csv(files[0], usecols=list(PUMP))[list(PUMP)]
    rows["timestamp"] = pd.to_datetime(rows["timestamp"])
    return rows.sort_values("timestamp", kind="stable")


ORIGINALS = {
    each.name: each
    for each in (
        Original(
            "intel", ("data.txt",), "http://db.csail.mit.edu/labdata/labdata.html", INTEL, 2_313_682,
            "intel_lab_full", _intel, "the file data.txt.gz, unpacked",
        ),
        Original(
            "gas", ("HT_Sensor_dataset.dat", "HT_Sensor_metadata.dat"),
            "http://archive.ics.uci.edu/ml/datasets/gas+sensors+for+home+activity+monitoring", GAS, 919_438,
            "gas_home_full", _gas, "HT_Sensor_dataset.zip unpacked, and the metadata beside it",
        ),
        Original(
            "bid", ("bid.csv",), "https://www.kaggle.com/abkedar/times-series-kernel", BID, 882_000,
            "bid_full", _bid,
            "the table of operations as one CSV file with a header, named bid.csv; the paper does not name the file",
        ),
        Original(
            "pump", ("sensor.csv",), "https://www.kaggle.com/nphantawee/pump-sensor-data/version/1", PUMP, 220_320,
            "pump_sensor_full", _pump,
        ),
    )
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ what the command does


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a set."""

    name: str
    state: str
    """`converted`, `there`, `missing`, or `refused`."""
    text: str


def convert_all(folder: Path, *, whole: bool = True) -> list[Outcome]:
    """Convert what is in the folder. `whole`: refuse files that are much shorter than the publishers'."""
    return [convert(each, folder, whole=whole) for each in ORIGINALS.values()]


def convert(original: Original, folder: Path, *, whole: bool = True) -> Outcome:
    """One set: check its files, then write it; a set that is converted already is left alone."""
    into = folder / f"{original.into}.parquet"
    if into.exists():
        return Outcome(original.name, "there", f"{into.name} holds {pq.read_metadata(into).num_rows:,} rows")
    files = tuple(folder / name for name in original.files)
    if absent := [each.name for each in files if not each.exists()]:
        note = f" ({original.note})" if original.note else ""
        return Outcome(original.name, "missing", f"{', '.join(absent)} from {original.address}{note}")
    try:
        check_columns(original, files[0])
        rows = original.convert(files)
        check_size(original, len(rows), whole=whole)
        moments = rows.select_dtypes("datetime")
        rows[moments.columns] = moments.apply(lambda at: at.dt.floor("us").astype("datetime64[us]"))
    except (LabError, ValueError, KeyError) as error:
        return Outcome(original.name, "refused", str(error))
    half = into.with_suffix(".half")
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), half, compression="zstd")
    half.replace(into)
    return Outcome(original.name, "converted", f"{len(rows):,} rows into {into.name}")


def check_columns(original: Original, file: Path) -> None:
    """Does the file begin as it should?"""
    with file.open(encoding="utf-8", errors="replace") as text:
        first = text.readline().strip()
    words = first.split(",") if file.suffix == ".csv" else first.split()
    if original.convert is _intel:
        if len(words) < 4 or len(words) > len(INTEL):
            raise LabError(f"{file.name} begins with {first[:60]!r}; a line of it has {' '.join(INTEL)}.")
        return
    names = {word.strip().strip('"') for word in words}
    if lacking := [name for name in original.columns if name not in names]:
        raise LabError(
            f"{file.name} lacks the columns {', '.join(lacking)}; it has {', '.join(sorted(names))[:200]}. "
            f"It is to be the file from {original.address}."
        )


def check_size(original: Original, rows: int, *, whole: bool = True) -> None:
    """Is it the whole file?"""
    if whole and rows < 0.9 * original.rows:
        raise LabError(
            f"{' and '.join(original.files)} give {rows:,} rows, and the publisher's have {original.rows:,}: a part of "
            "the file. Take the whole one, or convert it with --part."
        )


def lines(outcomes: Iterable[Outcome]) -> list[str]:
    """For people."""
    return [f"{each.name}: {each.state}: {each.text}" for each in outcomes]
