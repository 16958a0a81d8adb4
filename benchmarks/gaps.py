"""What does each way of treating gaps cost, where the truth is known?

    python -m benchmarks.gaps FOLDER/nba_players.parquet

Seasons of basketball players: points, rebounds, assists, steals and blocks, more is better. The table is complete, so
its true skyline is known. One cell in ten is hidden, and each way answers from what is left. Three questions:

- Of the truly unbeaten rows, how many are answered (recall), and how much of the answer is true (precision)?
- Of the rows that are reported with some probability, how many truly are?
- If twenty of the hidden values are measured, those that `ask_next` names or any twenty, how much better is the answer?
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import fogline as fl
from fogline.arrays import Flags, Floats

ATTRIBUTES = ["points", "rebounds", "assists", "steals", "blocks"]
WAYS = dict.fromkeys(ATTRIBUTES, "max")
COMPLETE_SINCE = 1979  # before, 0 stands for "not recorded"
HIDDEN, SEEDS, MEASURED = 0.1, 10, 20
BINS = [0.0, 0.2, 0.4, 0.6, 0.8, 1 - 1e-9, 1.1]


def seasons(path: Path) -> Floats:
    """(n, 5): every season since all five are recorded."""
    table = pq.read_table(path, columns=[*ATTRIBUTES, "season"])
    table = table.filter(pc.greater_equal(table["season"], COMPLETE_SINCE))
    return np.column_stack([table[name].to_numpy().astype(np.float64) for name in ATTRIBUTES])


def hidden(rows: Floats, seed: int) -> Floats:
    """The same rows with one cell in ten missing."""
    return np.where(np.random.default_rng(seed).random(rows.shape) < HIDDEN, np.nan, rows)


def table_of(rows: Floats) -> pa.Table:
    """The rows as a table with gaps; `id` is the position."""
    columns = {name: pa.array(rows[:, k], from_pandas=True) for k, name in enumerate(ATTRIBUTES)}
    return pa.table(columns | {"id": np.arange(len(rows)), "t": np.zeros(len(rows), np.int64)})


def pareto(rows: Floats) -> Flags:
    """What a Pareto library answers about these rows, gaps and all."""
    from paretoset import paretoset

    return np.asarray(paretoset(rows, sense=["max"] * rows.shape[1], distinct=False))


def by_fogline(rows: Floats, alpha: float) -> Flags:
    """The rows that are unbeaten with a probability above alpha."""
    found = np.zeros(len(rows), bool)
    found[fl.skyline(table_of(rows), WAYS, alpha=alpha)["id"].to_numpy()] = True
    return found


def by_means(rows: Floats) -> Flags:
    """The Pareto library, once each gap is its column's mean."""
    return pareto(np.where(np.isnan(rows), np.nanmean(rows, axis=0), rows))


def by_dropping(rows: Floats) -> Flags:
    """The Pareto library, once rows with a gap are left out."""
    whole = ~np.isnan(rows).any(axis=1)
    found = np.zeros(len(rows), bool)
    found[whole] = pareto(rows[whole])
    return found


ANSWERS: dict[str, Callable[[Floats], Flags]] = {
    "Fogline, miss little (alpha=0.1)": lambda rows: by_fogline(rows, 0.1),
    "Fogline, err least (alpha=0.5)": lambda rows: by_fogline(rows, 0.5),
    "gaps filled with column means": by_means,
    "rows with gaps dropped": by_dropping,
    "paretoset, NaN as it is": pareto,
}


def accuracy(rows: Floats) -> Iterator[tuple[str, float, float]]:
    """(way, recall, precision), means over the seeds."""
    true = pareto(rows)
    for name, answer in ANSWERS.items():
        answers = [answer(hidden(rows, seed)) for seed in range(SEEDS)]
        hits = [int((each & true).sum()) for each in answers]
        precision = [hit / max(1, each.sum()) for hit, each in zip(hits, answers, strict=True)]
        yield name, float(np.mean(hits) / true.sum()), float(np.mean(precision))


def calibration(rows: Floats) -> Iterator[tuple[int, float, float]]:
    """(rows, mean probability, share that is truly in) for each bin of probabilities, over all seeds."""
    true = pareto(rows)
    found = [fl.skyline(table_of(hidden(rows, seed)), WAYS, alpha=0.0) for seed in range(SEEDS)]
    stated = np.concatenate([each["probability"].to_numpy() for each in found])
    right = np.concatenate([true[each["id"].to_numpy()] for each in found])
    which = np.digitize(stated, BINS)
    for k in range(1, len(BINS)):
        here = which == k
        yield int(here.sum()), float(stated[here].mean()), float(right[here].mean())


def measuring(rows: Floats) -> Iterator[tuple[str, float]]:
    """(what was measured, F), means over the seeds: nothing, twenty missing values at random, those asked for."""
    query, true = fl.Query(WAYS, id="id", time="t", lifetime=1), pareto(rows)

    def f(repository: fl.Repository, known: Floats) -> float:
        found = fl.skyline(table_of(known), query, repository)["id"].to_numpy()
        return float(2 * true[found].sum() / (len(found) + true.sum()))

    def revealed(known: Floats, cells: list[tuple[int, int]]) -> Floats:
        out = known.copy()
        for row, k in cells:
            out[row, k] = rows[row, k]
        return out

    scores: dict[str, list[float]] = {"nothing": [], "any 20": [], "the 20 that ask_next names": []}
    for seed in range(SEEDS):
        known = hidden(rows, seed)
        repository = fl.Repository.fit(table_of(known[~np.isnan(known).any(axis=1)]), query)
        monitor = fl.Monitor(query, repository)
        monitor.advance(0, table_of(known))
        asked = [(each["id"], ATTRIBUTES.index(each["attribute"])) for each in monitor.ask_next(MEASURED).to_pylist()]
        gaps = np.argwhere(np.isnan(known))
        drawn = gaps[np.random.default_rng(seed).choice(len(gaps), MEASURED, replace=False)].tolist()
        for name, cells in zip(scores, ([], drawn, asked), strict=True):
            scores[name].append(f(repository, revealed(known, cells)))
    for name, each in scores.items():
        yield name, float(np.mean(each))


def main() -> None:
    """Print three tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("path", type=Path)
    rows = seasons(parser.parse_args().path)
    print(f"{len(rows):,} seasons, {int(pareto(rows).sum())} truly unbeaten, {HIDDEN:.0%} of the cells hidden,")
    print(f"means over {SEEDS} seeds\n\n   recall  precision")
    for name, recall, precision in accuracy(rows):
        print(f"{recall:8.2f} {precision:9.2f}   {name}")
    print("\n stated  truly in  rows")
    for count, stated, right in calibration(rows):
        print(f"{stated:8.2f} {right:8.2f}   {count:,}")
    print("\n      F  measured")
    for name, score in measuring(rows):
        print(f"{score:8.2f}   {name}")


if __name__ == "__main__":
    main()
