"""Does the cost model choose a good side for the cells of the index?

120,000 rows, two determinants from 0 to 10. Estimated is Eq. 11 (cells and false alarms, β taken out); actual is a
query in full, with what no side can save: walking down, copying and sorting what matched.

At the end, whether the paper's histograms would save work: bounds of the dependent attribute from the histograms of the
cells, beside exact ones, and beside counting matches, without which rough bounds cannot be used (a row that matches
nothing is imputed otherwise).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np

from fogline.arrays import Floats
from fogline.repository.cost import BETA, Law, Load, cost, power_law, sides, unit_costs
from fogline.repository.index import Index
from lab.histograms import Histograms

ROWS, RANGE, CENTRES, REPEATS = 120_000, 10.0, 2_000, 15
TRIED = (0.1, 0.2, 0.4, 0.7, 1.0)
LIMIT = 1.25


def uniform(rng: np.random.Generator) -> Floats:
    return rng.uniform(0, RANGE, (ROWS, 2))


def clustered(rng: np.random.Generator) -> Floats:
    """Forty round clusters."""
    middle = rng.uniform(0, RANGE, (40, 2))[rng.integers(40, size=ROWS)]
    return np.asarray(np.clip(middle + rng.normal(0, 0.15, (ROWS, 2)), 0, RANGE))


def measured(indexes: Iterable[Index], centres: Floats, radius: Floats) -> Floats:
    """Seconds per query of each index: the median of several rounds, one after the other in each round."""
    indexes = list(indexes)
    took = np.empty((REPEATS + 1, len(indexes)))
    for turn in took:
        for i, index in enumerate(indexes):
            began = time.perf_counter()
            index.find(centres, radius)
            turn[i] = (time.perf_counter() - began) / len(centres)
    return np.asarray(np.median(took[1:], axis=0))  # the first round is for the caches


def compare(name: str, points: Floats, law: Law, epsilon: float, rng: np.random.Generator) -> None:
    """One table."""
    then, centres, radius = points[:, 0], points[rng.choice(ROWS, CENTRES, replace=False)], np.full(2, epsilon)
    chosen = float(sides(points, radius)[0])
    tried = (*TRIED, chosen)
    indexes = [Index.build(points, then, [u, u]) for u in tried]
    matches = len(indexes[0].find(centres, radius)[1]) / CENTRES
    load = Load(ROWS, radius[None] / RANGE, law, unit_costs())
    actual = measured(indexes, centres, radius)
    print(f"\n{name}, ε = {epsilon}: {matches:.0f} matches per query\n")
    print("| u | estimated, µs | actual, µs |\n|---:|---:|---:|")
    for u, seconds in zip(tried, actual, strict=True):
        label = f"{u:.3f} (chosen)" if u == chosen else f"{u:g}"
        print(f"| {label} | {cost(u / RANGE, load) / BETA * 1e6:.2f} | {seconds * 1e6:.2f} |")
    times = actual[-1] / actual[:-1].min()
    print(f"\nchosen u costs {times:.2f} × the best measured (to be at most {LIMIT})")


def seconds(action: Callable[[], object]) -> float:
    """The median of several calls, per centre."""
    took = []
    for _ in range(REPEATS + 1):
        began = time.perf_counter()
        action()
        took.append((time.perf_counter() - began) / CENTRES)
    return float(np.median(took[1:]))


def histograms(rng: np.random.Generator) -> None:
    """Three determinants: what rough bounds cost and how much wider they are."""
    points, radius = rng.uniform(0, RANGE, (ROWS, 3)), np.full(3, 0.3)
    index = Index.build(points, points.sum(axis=1), sides(points, radius))
    rough, centres = Histograms.of(index), points[rng.choice(ROWS, CENTRES, replace=False)]
    width = [
        np.subtract(*ends[::-1]).mean() for ends in (index.bounds(centres, radius), rough.bounds(centres, radius, 9))
    ]
    exact, matching, at_cells = (
        seconds(lambda: index.bounds(centres, radius)),
        seconds(lambda: index.count(centres, radius)),
        seconds(lambda: rough.bounds(centres, radius, 9)),
    )
    print(
        f"\nhistograms, 3 determinants: exact bounds {exact * 1e6:.2f} µs; "
        f"from cells' histograms {at_cells * 1e6:.2f} µs, {width[1] / width[0]:.1f}× as wide, "
        f"and {matching * 1e6:.2f} µs to count matches"
    )


def main() -> None:
    rng = np.random.default_rng(1)
    units = unit_costs()
    print(f"t_cell {units.cell * 1e9:.0f} ns, t_sr {units.row * 1e9:.1f} ns; |R| = {ROWS:,}")
    for name, points, radii in (
        ("Uniform", uniform(rng), (0.072, 0.228)),
        ("Clustered", clustered(rng), (0.023, 0.075)),
    ):
        law = power_law(points / RANGE)
        print(f"\n{name}: D₂ = {law.dimension:.2f}, factor {law.factor:.2f}")
        for epsilon in radii:
            compare(name, points, law, epsilon, rng)
    histograms(rng)


if __name__ == "__main__":
    main()
