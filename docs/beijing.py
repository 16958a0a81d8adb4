"""How does the pipeline do on four years of Beijing's air, with the gaps that are really there?

    python docs/beijing.py PATH/beijing_air.parquet [--out docs/beijing] [--work FOLDER]

Fits the first year, watches all four as a stream of monthly files, compares the answer with what dropping and carrying
forward give, checks distributions and answers where the truth is known, and writes numbers.json and four pictures.
`--work` keeps the files of the run, and goes on where an earlier one stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import fogline as fl
import fogline.spark

matplotlib.use("Agg")
import matplotlib.dates as mdates
import matplotlib.pyplot as plt

NAMES = ["pm25", "no2", "co", "o3"]
LABELS = {"pm25": "PM2.5", "no2": "NO₂", "co": "CO", "o3": "O₃"}
QUERY = fl.Query(dict.fromkeys(NAMES, "max"), id="station", time="timestamp", lifetime="1 day", alpha=0.5)
HISTORY_ENDS, LAST_YEAR = pd.Timestamp("2014-03-01"), pd.Timestamp("2016-03-01")
HOURS = 24  # that a reading counts
SEED, HIDDEN = 7, 0.05
BLUE, RED, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"  # distinct to colour-blind eyes too

Grid = NDArray[np.float64]  # (readings, HOURS): a reading's probability k hours after it came; NaN: not in the answer


# ---------------------------------------------------------------------------------------------------- the stream


def write_stream(air: pd.DataFrame, folder: Path) -> None:
    """One file per month, the older ones with older times: the order in which Spark takes them."""
    folder.mkdir(parents=True)
    for k, (month, rows) in enumerate(air.groupby(air["timestamp"].dt.to_period("M"))):
        path = folder / f"{month}.parquet"
        rows.to_parquet(path, index=False)
        os.utime(path, (1e9 + k, 1e9 + k))


def fitted(spark: Any, history: pd.DataFrame, work: Path) -> tuple[fl.Repository, float]:
    """The repository of the first year, and how many seconds it took."""
    began = perf_counter()
    if not (work / "year.repo").exists():
        history.to_parquet(work / "history.parquet", index=False)
        fl.spark.fit(spark.read.parquet(str(work / "history.parquet")), QUERY, folder=work / "year.repo")
    seconds = perf_counter() - began
    return fl.Repository.load(work / "year.repo"), seconds


def watched(spark: Any, repository: fl.Repository, work: Path) -> float:
    """Watch the files of `stream` into `watched`, one a batch, as `fogline run` does; how many seconds it took."""
    from fogline.runs.config import RunConfig
    from fogline.spark.running import Run

    order = RunConfig(str(work / "stream"), str(work / "watched"), QUERY, repository)
    began = perf_counter()
    running = Run(spark, order, lambda p: print(f"batch {p.batch}: {p.rows} rows, {p.seconds:.1f} s", flush=True))
    running.start(files_per_batch=1).awaitTermination()
    return perf_counter() - began


def timed(work: Path, **seconds: float) -> dict[str, float]:
    """How long fitting and watching took when they were done: not when a later run found them done."""
    path = work / "times.json"
    if not path.exists():
        path.write_text(json.dumps(seconds), encoding="utf-8")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def read_all(folder: Path) -> pd.DataFrame:
    """All files of a folder, in their order; an empty frame if there are none."""
    files = sorted(folder.glob("*.parquet")) if folder.exists() else []
    return (
        pd.concat([pq.read_table(path).to_pandas() for path in files], ignore_index=True) if files else pd.DataFrame()
    )


# ---------------------------------------------------------------------------------------------------- answers


class Places:
    """Numbers of readings: hour by hour, station by station."""

    def __init__(self, air: pd.DataFrame) -> None:
        self.stations = sorted(air["station"].unique())
        self.first = air["timestamp"].min()
        self.hours = int((air["timestamp"].max() - self.first) / pd.Timedelta("1h")) + 1

    def hour(self, times: Any) -> NDArray[np.int64]:
        """Hours since the first reading."""
        gone = pd.to_datetime(pd.Series(times)).dt.tz_localize(None) - self.first
        return np.asarray(gone // pd.Timedelta("1h"), np.int64)

    def of(self, stations: Any, times: Any) -> NDArray[np.int64]:
        """The number of each reading."""
        code = pd.Categorical(stations, categories=self.stations).codes
        return self.hour(times) * len(self.stations) + code

    def grid(self, changes: pd.DataFrame) -> Grid:
        """Add changes up: the probability of every reading in every hour of its life."""
        out = np.full((self.hours * len(self.stations), HOURS), np.nan)
        row = self.of(changes["station"], changes["timestamp"])
        age = self.hour(changes["time"]) - self.hour(changes["timestamp"])
        chance = changes["probability"].to_numpy(np.float64)
        for k in range(HOURS):
            then = age == k
            out[row[then], k:] = chance[then, None]
        return out

    def ticks(self, per_age: NDArray[Any]) -> NDArray[np.int64]:
        """(hours,) sums over the readings that are alive in each hour, from (readings, HOURS)."""
        byhour = per_age.reshape(self.hours, len(self.stations), HOURS).sum(axis=1)
        out = np.zeros(self.hours, np.int64)
        for k in range(HOURS):
            out[k:] += byhour[: self.hours - k, k]
        return out


def answers(rows: pd.DataFrame, places: Places, repository: fl.Repository | None = None) -> Grid:
    """The same question asked in this process, without Spark."""
    monitor = fl.Monitor(QUERY, repository)
    changes = []
    for _, month in rows.groupby(rows["timestamp"].dt.to_period("M")):
        table = pa.Table.from_pandas(month, preserve_index=False)
        changes.append(monitor.advance(month["timestamp"].max().to_pydatetime(), table).to_pandas())
    return places.grid(pd.concat(changes))


def carried(rows: pd.DataFrame) -> pd.DataFrame:
    """Every gap filled with the station's last value; rows before the first one go."""
    filled = rows.copy()
    filled[NAMES] = rows.groupby("station")[NAMES].ffill()
    return filled.dropna(subset=NAMES)


def difference(fogline: Grid, other: Grid, places: Places, since: pd.Timestamp) -> dict[str, Any]:
    """How often two answers differ, from an instant on. Neither is the truth."""
    a, b = ~np.isnan(fogline), ~np.isnan(other)
    begin = int(places.hour([since])[0])
    ticks, either = places.ticks(a ^ b)[begin:], places.ticks(a | b)[begin:]
    readings = slice(begin * len(places.stations), None)
    a, b = a[readings], b[readings]
    return {
        "ticks_that_differ": float((ticks > 0).mean()),
        "members_that_differ": float(ticks.sum() / either.sum()),
        "only_fogline": int((a & ~b).sum()),
        "only_other": int((b & ~a).sum()),
    }


def furthest(one: Grid, other: Grid) -> float:
    """How far two answers are apart, in probability, at worst; out counts as 0."""
    return float(np.abs(np.nan_to_num(one) - np.nan_to_num(other)).max())


def score(given: Grid, truth: Grid) -> dict[str, float]:
    """Precision, recall and F of an answer beside the true one, over all hours."""
    a, t = ~np.isnan(given), ~np.isnan(truth)
    both = int((a & t).sum())
    precision, recall = both / max(int(a.sum()), 1), both / max(int(t.sum()), 1)
    return {"precision": precision, "recall": recall, "f": 2 * precision * recall / (precision + recall)}


# ---------------------------------------------------------------------------------------------------- measuring


def found(air: pd.DataFrame, grid: Grid, places: Places) -> dict[str, Any]:
    """What the answer over four years was like."""
    inside = ~np.isnan(grid)
    gappy = air[NAMES].isna().any(axis=1).to_numpy()
    ever = inside.any(axis=1)
    unsure = inside & (grid < 1 - 1e-9)
    sizes, with_gaps = places.ticks(inside), places.ticks(inside & gappy[:, None])
    share = pd.Series(inside.sum(axis=1)).groupby(air["station"].to_numpy()).sum() / inside.sum()
    return {
        "answer_median": float(np.median(sizes)),
        "answer_5_95": [float(each) for each in np.percentile(sizes, [5, 95])],
        "readings_ever_in": int(ever.sum()),
        "readings_with_gaps_ever_in": int((ever & gappy).sum()),
        "in_for_the_whole_day": int(inside.all(axis=1).sum()),
        "member_hours": int(inside.sum()),
        "member_hours_with_gaps": int((inside & gappy[:, None]).sum()),
        "member_hours_with_gaps_below_1": int((unsure & gappy[:, None]).sum()),
        "member_hours_complete_below_1": int((unsure & ~gappy[:, None]).sum()),
        "hours_with_a_gappy_member": float((with_gaps > 0).mean()),
        "share_by_station": {k: float(v) for k, v in share.sort_values(ascending=False).items()},
    }


def gaps(air: pd.DataFrame) -> dict[str, Any]:
    """How much is missing, and in runs of which length."""
    out: dict[str, Any] = {}
    for name in NAMES:
        lacks = air.pivot(index="timestamp", columns="station", values=name).isna()
        runs = [each for station in lacks for each in lengths(lacks[station].to_numpy())]
        out[name] = {"cells": sum(runs), "share": sum(runs) / len(air), "runs": len(runs), "longest": max(runs)}
        out[name]["median_run"] = float(np.median(runs))
    lacking = air[NAMES].isna().sum(axis=1)
    out["rows_with_gaps"] = int((lacking > 0).sum())
    out["rows_by_gaps"] = {int(k): int(v) for k, v in lacking.value_counts().sort_index().items()}
    return out


def lengths(lacks: NDArray[np.bool_]) -> list[int]:
    """The lengths of runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], lacks.astype(np.int8), [0]))))
    return [int(each) for each in edges[1::2] - edges[::2]]


def hide(year: pd.DataFrame, mask: NDArray[np.bool_]) -> pd.DataFrame:
    """The same with these cells gone."""
    out = year.copy()
    out[NAMES] = year[NAMES].mask(mask)
    return out


def imputed(spark: Any, shown: pd.DataFrame, repository: fl.Repository, work: Path) -> pd.DataFrame:
    """Per missing cell: least, 10 %, median, 90 % and greatest value of its distribution, and which imputer gave it."""
    shown.to_parquet(work / "shown.parquet", index=False)
    spread = fl.spark.impute(spark.read.parquet(str(work / "shown.parquet")), QUERY, repository).toPandas()
    spread = spread.sort_values(["station", "timestamp", "attribute", "value"])
    keys = ["station", "timestamp", "attribute"]
    spread["upto"] = spread.groupby(keys)["probability"].cumsum()
    cells = spread.groupby(keys)
    out = cells.agg(least=("value", "min"), most=("value", "max"), rule=("rule", "first"))
    for label, share in (("low", 0.1), ("median", 0.5), ("high", 0.9)):
        out[label] = spread[spread["upto"] >= share - 1e-9].groupby(keys)["value"].first()
    return out.reset_index()


def with_truth(cells: pd.DataFrame, year: pd.DataFrame, shown: pd.DataFrame) -> pd.DataFrame:
    """The imputed cells whose truth is known, with it and with the station's last value."""
    parts = []
    last = shown.groupby("station")[NAMES].ffill()
    for name in NAMES:
        known = pd.DataFrame(
            {"station": year["station"], "timestamp": year["timestamp"], "truth": year[name], "last": last[name]}
        )
        parts.append(cells[cells["attribute"] == name].merge(known, on=["station", "timestamp"]))
    return pd.concat(parts).dropna(subset=["truth"])


def judged(cells: pd.DataFrame) -> dict[str, Any]:
    """Per attribute: how often the truth lies within, and how far median and last value are from it."""
    out = {}
    for name, each in cells.groupby("attribute"):
        compared = each.dropna(subset=["last"])
        out[str(name)] = {
            "cells": len(each),
            "inside_ends": float(each["truth"].between(each["least"] - 1e-3, each["most"] + 1e-3).mean()),
            "by_own_past": float((each["rule"] == "sensor's own past").mean()),
            "error_of_median": float((compared["median"] - compared["truth"]).abs().mean()),
            "error_of_last": float((compared["last"] - compared["truth"]).abs().mean()),
        }
    return out


def checks(
    spark: Any, air: pd.DataFrame, repository: fl.Repository, work: Path
) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Hide known values of the last year, at random and where the year before had its gaps; judge what is imputed."""
    year = air[air["timestamp"] >= LAST_YEAR].reset_index(drop=True)
    before = air[air["timestamp"] < LAST_YEAR].tail(len(year))
    masks = {
        "random": np.random.default_rng(SEED).random((len(year), len(NAMES))) < HIDDEN,
        "gaps_of_the_year_before": before[NAMES].isna().to_numpy(),
    }
    places, numbers, cells = Places(year), {}, {}
    complete = year[NAMES].notna().all(axis=1).to_numpy()
    truth = answers(year[complete], places)
    for label, mask in masks.items():
        shown = hide(year, mask)
        cells[label] = with_truth(imputed(spark, shown, repository, work), year, shown)
        test = shown[complete]
        given = {
            "fogline": answers(test, places, repository),
            "dropped": answers(test.dropna(subset=NAMES), places),
            "carried": answers(carried(test), places),
        }
        numbers[label] = {
            "cells": judged(cells[label]),
            "answers": {who: score(grid, truth) for who, grid in given.items()},
        }
        print(label, json.dumps(numbers[label], indent=1), flush=True)
    return numbers, cells | {"truth": year}


# ---------------------------------------------------------------------------------------------------- pictures


def style() -> None:
    """Plain, with room to read."""
    plt.rcParams.update(
        {
            "font.size": 11,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlelocation": "left",
            "axes.titlesize": 12,
            "figure.dpi": 110,
            "savefig.bbox": "tight",
            "legend.frameon": False,
        }
    )


def picture_gaps(air: pd.DataFrame, out: Path) -> None:
    """Share of missing values per month and attribute."""
    month = air["timestamp"].dt.to_period("M")
    share = air[NAMES].isna().groupby(month).mean().T * 100
    figure, axes = plt.subplots(figsize=(9, 2.4))
    image = axes.imshow(share, aspect="auto", cmap="cividis_r", norm=matplotlib.colors.PowerNorm(0.5, 0, 40))
    axes.set_yticks(range(len(NAMES)), [LABELS[name] for name in NAMES])
    januaries = [k for k, each in enumerate(share.columns) if each.month in (3, 9)]
    axes.set_xticks(januaries, [share.columns[k].strftime("%b\n%Y") for k in januaries])
    axes.spines[:].set_visible(False)
    axes.set_title("Missing values per month")
    figure.colorbar(image, ax=axes, label="% missing", ticks=[0, 2, 5, 10, 20, 40], pad=0.02)
    figure.savefig(out / "gaps.png")
    plt.close(figure)


def gappiest_week(grid: Grid, air: pd.DataFrame, places: Places) -> int:
    """The first hour of the week after the history in which most members had gaps, but not whole stations did."""
    lacking = air[NAMES].isna().sum(axis=1).to_numpy()
    some = ((lacking > 0) & (lacking < len(NAMES)))[:, None] & ~np.isnan(grid)
    first = (some & (np.arange(HOURS) == 0)).sum(axis=1).reshape(places.hours, -1).sum(axis=1)
    week = np.convolve(first, np.ones(168), "valid")
    week[: places.hour([HISTORY_ENDS])[0]] = -1
    return int(week.argmax())


def picture_week(air: pd.DataFrame, grid: Grid, places: Places, out: Path) -> str:
    """Who came into the answer on arrival, station by station, in one week."""
    begin = gappiest_week(grid, air, places)
    width = len(places.stations)
    part = slice(begin * width, (begin + 168) * width)
    rows, first = air.iloc[part], grid[part, 0]
    y = np.tile(np.arange(width), 168)
    lacks = rows[NAMES].isna().any(axis=1).to_numpy()
    inside = ~np.isnan(first)
    times = rows["timestamp"].to_numpy()
    figure, axes = plt.subplots(figsize=(10, 4.6))
    kinds: Iterable[tuple[Any, dict[str, Any]]] = (
        (
            lacks & ~inside,
            {"marker": "|", "s": 40, "c": GREY, "linewidths": 1.2, "label": "has gaps, not in the answer"},
        ),
        (inside & ~lacks, {"marker": "o", "s": 14, "c": BLUE, "label": "complete, in the answer"}),
    )
    for which, how in kinds:
        axes.scatter(times[which], y[which], **how)
    which = inside & lacks
    shade = axes.scatter(
        times[which], y[which], c=first[which], cmap="YlOrRd", vmin=0.5, vmax=1, s=30, marker="D",
        edgecolors="black", linewidths=0.6, label="has gaps, in the answer",
    )  # fmt: skip
    axes.set_yticks(range(width), places.stations)
    day = pd.Timestamp(times[0])
    days(axes, day, pd.Timestamp(times[-1]))
    axes.set_title(f"Readings that were among the worst of 24 hours when they came, {day:%B %Y}", pad=28)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.99), ncols=3, handletextpad=0.2, columnspacing=1.4)
    figure.colorbar(shade, ax=axes, label="probability (readings with gaps)", pad=0.02)
    figure.savefig(out / "week.png")
    plt.close(figure)
    return f"{day:%Y-%m-%d}"


def fullest_week(cells: pd.DataFrame) -> tuple[str, pd.Timestamp]:
    """The station and week with most hidden values; of several, the one in which they differ most."""
    week = cells["timestamp"].dt.to_period("W").dt.start_time.rename("week")
    size = cells.groupby(["station", week]).agg(n=("truth", "size"), spread=("truth", "std"))
    station, begin = size.sort_values(["n", "spread"]).index[-1]
    return str(station), begin


def draw_imputed(axes: Any, cells: pd.DataFrame, year: pd.DataFrame, title: str) -> str:
    """Hidden values of PM2.5 of one station and week, and what was imputed for them."""
    hidden = cells[cells["attribute"] == "pm25"]
    station, week = fullest_week(hidden)
    end = week + pd.Timedelta("7D")
    hidden = hidden[(hidden["station"] == station) & hidden["timestamp"].between(week, end)].sort_values("timestamp")
    truth = year[(year["station"] == station) & year["timestamp"].between(week, end)]
    axes.plot(truth["timestamp"], truth["pm25"], color=GREY, linewidth=1.3, label="measured")
    look = {"color": BLUE, "linewidth": 4, "alpha": 0.45, "label": "imputed, least to most"}
    axes.vlines(hidden["timestamp"], hidden["least"], hidden["most"], **look)
    axes.scatter(hidden["timestamp"], hidden["median"], color=BLUE, s=20, zorder=3, label="imputed, median")
    axes.scatter(hidden["timestamp"], hidden["last"], color=RED, s=24, marker="x", zorder=3, label="last value")
    look = {"facecolors": "white", "edgecolors": "black", "s": 24, "zorder": 4, "label": "hidden truth"}
    axes.scatter(hidden["timestamp"], hidden["truth"], **look)
    axes.set_ylabel("PM2.5, µg/m³")
    axes.set_ylim(bottom=0)
    days(axes, week, end)
    axes.set_title(f"{title}: {station}, {week:%B %Y}", fontsize=11)
    return f"{station} {week:%Y-%m-%d}"


def days(axes: Any, begin: pd.Timestamp, end: pd.Timestamp) -> None:
    """One label a day."""
    axes.set_xlim(begin - pd.Timedelta("3h"), end + pd.Timedelta("3h"))
    axes.xaxis.set_major_locator(mdates.DayLocator())
    axes.xaxis.set_major_formatter(mdates.DateFormatter("%d %b"))


def picture_imputed(cells: dict[str, pd.DataFrame], out: Path) -> list[str]:
    """Two weeks: with values hidden at random, and with an outage of the year before."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(10, 6.2), height_ratios=[1, 1])
    shown = [draw_imputed(above, cells["random"], cells["truth"], "Hidden at random")]
    shown += [draw_imputed(below, cells["gaps_of_the_year_before"], cells["truth"], "Hidden as in the year before")]
    figure.tight_layout(h_pad=1.5, rect=(0, 0, 1, 0.94))
    handles, labels = above.get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=5, handletextpad=0.4, columnspacing=1.4)
    figure.savefig(out / "imputed.png")
    plt.close(figure)
    return shown


def picture_differences(fogline: Grid, others: dict[str, Grid], places: Places, out: Path) -> None:
    """Share of members that differ, month by month."""
    figure, axes = plt.subplots(figsize=(9, 3.2))
    months = pd.date_range(places.first, periods=places.hours, freq="h").to_period("M")
    looks = {"dropped": ("rows with gaps dropped", RED, "-"), "carried": ("last value carried forward", BLUE, "--")}
    for who, grid in others.items():
        a, b = ~np.isnan(fogline), ~np.isnan(grid)
        by_month = pd.DataFrame({"x": places.ticks(a ^ b), "all": places.ticks(a | b)}).groupby(months).sum()
        label, colour, line = looks[who]
        axes.plot(by_month.index.to_timestamp(), by_month["x"] / by_month["all"] * 100, line, color=colour, label=label)
    axes.axvspan(places.first, HISTORY_ENDS, color="0.93", zorder=0, label="the year that was the history")
    axes.set_ylabel("% of members")
    axes.set_ylim(bottom=0)
    axes.set_title("How much the answer differs from Fogline's", pad=26)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.97), ncols=3)
    figure.savefig(out / "differences.png")
    plt.close(figure)


# ---------------------------------------------------------------------------------------------------- all of it


def health_of(work: Path, sent: int) -> dict[str, Any]:
    """What the batches reported of themselves."""
    health, rejects = read_all(work / "watched" / "health"), read_all(work / "watched" / "rejects")
    numbers = {name: int(health[name].sum()) for name in ("rows", "incomplete", "screened", "rejected", "late")}
    assert numbers["rows"] == sent, (numbers, sent)
    slowest = health.loc[health["seconds"].idxmax()]
    return numbers | {
        "batches": int(health["batch"].nunique()),
        "seconds": float(health["seconds"].sum()),
        "median_batch": float(health["seconds"].median()),
        "slowest_batch": [str(slowest["time"]), float(slowest["seconds"])],
        "live_most": int(health["live"].max()),
        "reasons": rejects["reason"].value_counts().to_dict() if len(rejects) else {},
    }


def everything(path: Path, out: Path, work: Path) -> dict[str, Any]:
    """See the module."""
    air = pd.read_parquet(path).sort_values(["timestamp", "station"], ignore_index=True)
    places = Places(air)
    assert len(air) == places.hours * len(places.stations), "a row is missing"
    if not (work / "stream").exists():
        write_stream(air, work / "stream")
    spark = fl.spark.session(master="local[2]", log=work / "spark.log")
    repository, fit_seconds = fitted(spark, air[air["timestamp"] < HISTORY_ENDS], work)
    run_seconds = watched(spark, repository, work)
    changes = read_all(work / "watched" / "changes")
    grid = places.grid(changes)
    numbers: dict[str, Any] = {"rows": len(air), "gaps": gaps(air)}
    numbers |= timed(work, fit_seconds=fit_seconds, run_seconds=run_seconds) | {"changes": len(changes)}
    numbers |= {"health": health_of(work, len(air)), "found": found(air, grid, places)}
    others = {"dropped": answers(air.dropna(subset=NAMES), places), "carried": answers(carried(air), places)}
    for label, since in (("differences", places.first), ("differences_after_history", HISTORY_ENDS)):
        numbers[label] = {who: difference(grid, each, places, since) for who, each in others.items()}
    numbers["furthest_from_one_process"] = furthest(grid, answers(air, places, repository))
    print(json.dumps(numbers, indent=1), flush=True)
    numbers["checks"], cells = checks(spark, air, repository, work)
    spark.stop()
    out.mkdir(parents=True, exist_ok=True)
    style()
    picture_gaps(air, out)
    numbers["picture_week"] = picture_week(air, grid, places, out)
    numbers["picture_imputed"] = picture_imputed(cells, out)
    picture_differences(grid, others, places, out)
    (out / "numbers.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    return numbers


def main() -> None:
    """Read the arguments, do everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="beijing_air.parquet")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("beijing"), help="numbers and pictures")
    parser.add_argument("--work", type=Path, help="files of the run; a temporary folder if not given")
    given = parser.parse_args()
    if given.work is not None:
        given.work.mkdir(parents=True, exist_ok=True)
        everything(given.data, given.out, given.work.absolute())
        return
    with tempfile.TemporaryDirectory(prefix="beijing-") as work:
        everything(given.data, given.out, Path(work))


if __name__ == "__main__":
    main()
