"""How long does it take to find the rows near a centre: in sorted tables, in the tree, in the paper's index?

120,000 rows each, 1,000 centres; processor time of one thread, the median of several rounds, one access after the other
in each. The paper's index (`lab/paper`) has grid cells whose side its cost model chooses, under an R*-tree, or cells of
a plain side, with 16 rows each if they were spread evenly. At the end, what it takes to add rows: by R* insertion, or
by loading anew.

`--data` names a folder with intel_lab.parquet and beijing_air.parquet.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fogline.arrays import Floats
from fogline.kernels import rtree
from fogline.kernels.sorted import Asked, Sorted, find_close
from fogline.repository.access import bulk_loaded, readonly
from lab.paper.cost import sides
from lab.paper.index import Index

ROWS, CENTRES, ROUNDS = 120_000, 1_000, 9
PLAIN = 16  # rows of a cell of a plain side
SHARES = (0.01, 0.1)  # of the rows that are added


class Case(NamedTuple):
    name: str
    points: Floats  # (n, k); of words the codes
    radius: Floats  # (k,)
    words: tuple[bool, ...]


def synthetic() -> Iterator[Case]:
    rng = np.random.default_rng(1)
    flat, deep = rng.uniform(0, 10, (ROWS, 2)), rng.uniform(0, 10, (ROWS, 3))
    middle = rng.uniform(0, 10, (40, 2))[rng.integers(40, size=ROWS)]
    clusters = np.clip(middle + rng.normal(0, 0.15, (ROWS, 2)), 0, 10)
    yield Case("uniform", flat, np.full(2, 0.072), (False, False))
    yield Case("uniform, wide", flat, np.full(2, 0.228), (False, False))
    yield Case("clusters", clusters, np.full(2, 0.023), (False, False))
    yield Case("uniform, three", deep, np.full(3, 0.3), (False, False, False))


def real(folder: Path) -> Iterator[Case]:
    import pyarrow.parquet as pq

    frame = pq.read_table(folder / "intel_lab.parquet").to_pandas()
    sane = (frame.mote_id <= 54) & (frame.temperature < 50) & frame.humidity.between(0, 100) & (frame.voltage > 2)
    columns = ["mote_id", "humidity", "light", "voltage"]
    intel = frame.loc[sane & frame.light.notna(), columns].to_numpy(np.float64)[:ROWS]
    air = pq.read_table(folder / "beijing_air.parquet").to_pandas()
    beijing = air.loc[air.pm25.notna(), ["pm10", "co", "no2", "temperature"]].to_numpy(np.float64)[:ROWS]
    for share in (0.001, 0.01):
        for which in ([1, 3], [1, 2], [1, 2, 3]):
            yield _case(f"Intel {', '.join(columns[j] for j in which)}", intel[:, which], share)
    mote = _case("Intel mote_id, humidity, voltage", intel[:, [0, 1, 3]], 0.01)
    yield mote._replace(radius=mote.radius * [0, 1, 1], words=(True, False, False))
    for share in (0.003, 0.01, 0.03):
        yield _case("Beijing pm10, co", beijing[:, :2], share)
    yield _case("Beijing, four", beijing, 0.03)


def _case(name: str, points: Floats, share: float) -> Case:
    low, high = np.nanquantile(points, (0.01, 0.99), axis=0)
    return Case(f"{name} {share:g}", points, (high - low) * share, (False,) * points.shape[1])


def took(questions: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Microseconds per centre."""
    rounds: dict[str, list[float]] = {name: [] for name in questions}
    for _ in range(ROUNDS + 1):
        for name, ask in questions.items():
            began = time.thread_time()
            ask()
            rounds[name].append((time.thread_time() - began) / CENTRES * 1e6)
    return {name: float(np.median(seconds[1:])) for name, seconds in rounds.items()}


def plain_sides(case: Case) -> Floats:
    spread = ~np.array(case.words)
    extent = np.nanmax(case.points, axis=0) - np.nanmin(case.points, axis=0)
    return np.where(spread, extent / (ROWS / PLAIN) ** (1 / spread.sum()), 1.0)


def sorted_by(case: Case, then: Floats, key: int) -> tuple[Sorted, list[int], list[int]]:
    lead = [j for j, word in enumerate(case.words) if word]
    rest = [j for j in range(case.points.shape[1]) if j != key and j not in lead]
    there = np.flatnonzero(~np.isnan(case.points[:, [key, *lead]]).any(axis=1))
    order = there[np.lexsort([case.points[there, j] for j in (key, *lead)])]
    points = case.points[order]
    columns = points[:, lead[0]] if lead else np.empty(0), points[:, key], points[:, rest], then[order]
    return Sorted(*map(readonly, columns)), lead or [key], rest


def asked(case: Case) -> None:
    """One line of the table."""
    rng, radius = np.random.default_rng(2), readonly(case.radius)
    then = np.nan_to_num(case.points.sum(axis=1))
    there = np.flatnonzero(~np.isnan(case.points).any(axis=1))
    centres = readonly(case.points[rng.choice(there, CENTRES, replace=False)])
    tree = bulk_loaded(case.points, then)
    cost = Index.build(case.points, then, sides(case.points, radius, words=case.words))
    plain = Index.build(case.points, then, plain_sides(case))
    questions: dict[str, Callable[[], Any]] = {
        "tree": lambda: rtree.find(tree, centres, radius),
        "cost model": lambda: cost.find(centres, radius),
        "plain sides": lambda: plain.find(centres, radius),
    }
    for key in np.flatnonzero(~np.array(case.words)).tolist():
        table, (lead, *_), rest = sorted_by(case, then, key)
        question = Asked(centres[:, lead], centres[:, key], float(radius[key]), centres[:, rest], radius[rest])
        questions[f"sorted {key}"] = lambda table=table, question=question: find_close(table, question)  # type: ignore[misc]
    matches = len(questions["tree"]()[1]) / CENTRES
    found = took(questions)
    best = min(us for name, us in found.items() if name.startswith("sorted"))
    print(
        f"| {case.name} | {matches:.0f} | {best:.1f} | {found['tree']:.1f} | {found['cost model']:.1f} | "
        f"{found['plain sides']:.1f} |",
        flush=True,
    )


def added(case: Case) -> None:
    """What it takes to add rows, and to ask for them then."""
    then = np.nan_to_num(case.points.sum(axis=1))
    order = np.random.default_rng(3).permutation(ROWS)
    points, then = case.points[order], then[order]
    side = sides(points, case.radius, words=case.words)
    for share in SHARES:
        old = int(ROWS * (1 - share))
        arrays = Index.build(points[:old], then[:old], side).arrays()
        index = Index.from_arrays({name: array.copy() for name, array in arrays.items()})
        index.append(points[old : old + 1], then[old : old + 1])  # for the compiler, and memory
        began = time.thread_time()
        index.append(points[old + 1 :], then[old + 1 :])
        inserted, began = time.thread_time() - began, time.thread_time()
        bulk_loaded(points, then)
        loaded = time.thread_time() - began
        print(f"{case.name}: {share:.0%} inserted in {inserted * 1e3:.0f} ms, all loaded anew in {loaded * 1e3:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with intel_lab.parquet and beijing_air.parquet")
    options = parser.parse_args()
    cases = [*synthetic(), *(real(options.data) if options.data else ())]
    print("µs per centre\n\n| rows | matches | best sorted | tree | index, cost model | index, plain sides |")
    print("|---|---:|---:|---:|---:|---:|")
    for case in cases:
        asked(case)
    print()
    for case in cases:
        added(case)


if __name__ == "__main__":
    main()
