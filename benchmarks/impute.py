"""How fast is imputing, and how fast is a tick with it?

Streams that obey the paper's rules: 5,000 seeds whose values are at least 0.002 apart in every attribute, rows within
±0.0005 of a seed, rules a(0.001) -> b(0.01); the repository has 120,000 rows. Everything in one process, side by side.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.spatial import cKDTree

import fogline as fl
from benchmarks.streams import seed_points
from benchmarks.ticks import Rival
from fogline.arrays import Floats
from fogline.impute.fill import filled, look
from fogline.kernels import rtree
from fogline.repository.access import bulk_loaded, readonly
from fogline.rows.names import Kinds
from fogline.rows.reader import Reader

SPACE, NEAR, HISTORY, SEEDS = 0.002, 0.0005, 120_000, 5_000
FLOORS = {"uniform": 8, "correlated": 8, "anti": 3}


def spaced(points: Floats) -> Floats:
    """The same order in every attribute, with values SPACE apart."""
    return np.asarray((points.argsort(axis=0).argsort(axis=0) + 0.5) * SPACE, np.float64)


class SeedStream:
    """A history and a stream around the same seeds."""

    def __init__(self, kind: str, d: int = 4, seed: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        self.seeds, self.d = spaced(seed_points(kind, SEEDS, d, self.rng)), d
        self.names = [f"a{j}" for j in range(d)]

    def rows(self, n: int) -> Floats:
        """(n, d) copies of random seeds."""
        chosen = self.seeds[self.rng.integers(SEEDS, size=n)]
        return np.asarray(chosen + self.rng.uniform(-NEAR, NEAR, chosen.shape))

    def rules(self) -> list[str]:
        """Each attribute explained by the next one."""
        return [f"a{(j + 1) % self.d}(0.001) -> a{j}(0.01)" for j in range(self.d)]

    def repository(self, query: fl.Query) -> fl.Repository:
        history = self.rows(HISTORY)
        return fl.Repository.fit(pa.table(dict(zip(self.names, history.T, strict=True))), query, rules=self.rules())

    def batch(self, tick: int, n: int, mean: int, *, equal: bool) -> tuple[pa.Table, Floats]:
        """One tick's rows, one cell of 30 % of them missing."""
        values = self.rows(n)
        holes = self.rng.random(n) < 0.3
        values[holes, self.rng.integers(self.d, size=int(holes.sum()))] = np.nan
        life = np.full(n, mean) if equal else self.rng.integers(1, 2 * mean + 1, size=n)
        columns: dict[str, Any] = {"id": np.arange(tick * n, tick * n + n), "t": np.full(n, tick), "e": tick + life}
        for j, name in enumerate(self.names):
            columns[name] = pa.array(values[:, j], from_pandas=True)
        return pa.table(columns), values


def query_of(source: SeedStream) -> fl.Query:
    return fl.Query(attributes=dict.fromkeys(source.names, "max"), id="id", time="t", expires="e")


def median(action: Callable[[], Any], times: int = 5) -> float:
    action()
    took = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        took.append(time.perf_counter() - began)
    return float(np.median(took))


def imputed_rows() -> None:
    """Rows per second through single determinants, distributions included."""
    source = SeedStream("uniform")
    query = query_of(source)
    monitor = fl.Monitor(query, source.repository(query))
    assert monitor.chain is not None
    values = source.rows(20_000)
    values[:, 0] = np.nan
    table = pa.table({"id": np.arange(len(values)), "t": np.zeros(len(values)), "e": np.ones(len(values)), **{
        name: pa.array(values[:, j], from_pandas=True) for j, name in enumerate(source.names)}})  # fmt: skip
    chain, rows = monitor.chain, Reader(query).read(table, Kinds())
    looked = look(chain, rows)
    took = median(lambda: filled(chain, looked))
    size = filled(chain, looked).uncertain.size[:, 0].mean()
    print(f"single determinants: {len(values) / took:,.0f} imputed rows/s ({size:.1f} values each; floor 200,000)")


def two_determinants() -> None:
    """The tree beside a NumPy scan and SciPy's k-d tree, about 25 matches each."""
    rng = np.random.default_rng(3)
    points, then = rng.uniform(0, 10, (HISTORY, 2)), rng.random(HISTORY)
    radius = np.full(2, 5 * np.sqrt(25 / HISTORY))
    centres = points[rng.integers(HISTORY, size=1_000)]
    own, asked = bulk_loaded(points, then), (readonly(centres), readonly(radius))
    indexed = median(lambda: rtree.find(own, *asked)) / len(centres)
    few = centres[:50]
    scan = median(lambda: [np.sort(then[(np.abs(points - c) <= radius).all(axis=1)]) for c in few]) / len(few)
    tree = cKDTree(points)
    kd = median(lambda: [then[tree.query_ball_point(c, radius[0], p=np.inf)] for c in centres]) / len(centres)
    matches = np.diff(rtree.find(own, *asked)[0]).mean()
    print(
        f"two determinants, {matches:.0f} matches: tree {indexed * 1e6:.2f} µs, NumPy scan {scan * 1e6:.0f} µs "
        f"({scan / indexed:.0f}×, floor 100×), cKDTree {kd * 1e6:.1f} µs ({kd / indexed:.1f}×, floor 3×)"
    )


def ticks(kind: str) -> None:
    """A whole tick with imputation beside the rival, and how many rows needed their distribution."""
    source = SeedStream(kind)
    query = query_of(source)
    repository, window, n = source.repository(query), 20_000, 30
    for equal in (True, False):
        monitor, rival, mean = fl.Monitor(query, repository), Rival(window, source.d), window // n
        seconds, rival_seconds = [], []
        for t in range(2 * mean + 60):
            table, values = source.batch(t, n, mean, equal=equal)
            began = time.perf_counter()
            monitor.advance(t, table)
            seconds.append(time.perf_counter() - began)
            if t < 2 * mean:
                rival.put(values)
                continue
            began = time.perf_counter()
            rival.tick(values)
            rival_seconds.append(time.perf_counter() - began)
        a, b = float(np.median(seconds[-60:])), float(np.median(rival_seconds))
        stats = monitor.stats()
        share = stats["imputed"] / stats["incomplete"]
        lives = "equal lifetimes" if equal else "random lifetimes"
        print(
            f"{kind}, {lives}: tick {a * 1e3:.2f} ms, moocore {b * 1e3:.1f} ms, {b / a:.1f}× (floor {FLOORS[kind]}×); "
            f"{share:.1%} of the incomplete rows imputed; live {stats['live']}, answer {stats['answer']}"
        )


def intel(folder: str) -> None:
    """Real sensors: rules discovered in the first 120,000 rows, single attributes only, ticks from what follows."""
    import pyarrow.parquet as pq

    names = ["temperature", "humidity", "light", "voltage"]
    frame = pq.read_table(Path(folder) / "intel_lab.parquet").to_pandas()
    sane = (frame.mote_id <= 54) & (frame.temperature < 50) & frame.humidity.between(0, 100) & (frame.voltage > 2)
    frame = frame[sane & frame.light.notna()]
    query = fl.Query(attributes=dict.fromkeys(names, "max"), id="id", time="t", last=20_000)
    found = fl.Repository.fit(frame[names].iloc[:HISTORY], query)
    single = [rule for rule in found.rules if len(rule.given) == 1]
    print("Intel rules:", "; ".join(map(str, single)))
    repository = fl.Repository.fit(frame[names].iloc[:HISTORY], query, rules=single)
    values = frame[names].iloc[HISTORY:].to_numpy(np.float64)
    rng = np.random.default_rng(1)
    monitor, rival, n = fl.Monitor(query, repository), Rival(20_000, 4), 30
    seconds, rival_seconds = [], []
    for t in range(20_000 // n + 100):
        rows = values[t * n : t * n + n].copy()
        holes = rng.random(n) < 0.3
        rows[holes, rng.integers(4, size=int(holes.sum()))] = np.nan
        cells = {name: pa.array(rows[:, j], from_pandas=True) for j, name in enumerate(names)}
        table = pa.table({"id": np.arange(t * n, t * n + n), "t": np.full(n, t), **cells})
        began = time.perf_counter()
        monitor.advance(t, table)
        seconds.append(time.perf_counter() - began)
        if t < 20_000 // n + 40:
            rival.put(rows)
            continue
        began = time.perf_counter()
        rival.tick(rows)
        rival_seconds.append(time.perf_counter() - began)
    a, b, stats = float(np.median(seconds[-60:])), float(np.median(rival_seconds)), monitor.stats()
    print(
        f"Intel: tick {a * 1e3:.2f} ms (mean {np.mean(seconds[-60:]) * 1e3:.2f}), moocore {b * 1e3:.1f} ms, "
        f"{b / a:.1f}× (floor 1×); "
        f"live {stats['live']}, answer {stats['answer']}, imputed {stats['imputed']} of {stats['incomplete']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder with intel_lab.parquet, for the Intel case")
    parser.add_argument("--only", nargs="*", default=[], help="rows, index, uniform, correlated, anti, intel")
    options = parser.parse_args()
    jobs: dict[str, Callable[[], None]] = {"rows": imputed_rows, "index": two_determinants}
    jobs |= {kind: (lambda kind=kind: ticks(kind)) for kind in FLOORS}  # type: ignore[misc]
    if options.data:
        jobs["intel"] = lambda: intel(options.data)
    for name, job in jobs.items():
        if not options.only or name in options.only:
            job()


if __name__ == "__main__":
    main()
