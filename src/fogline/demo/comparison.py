"""How near does each way of asking come to the truth?

The simulation knows what the lost values were, so at sampled ticks the true skyline of the window is worked out from
them, and four answers are held against it: Fogline's, and those of three plain ways to get rid of missing values. The
skylines here are plain NumPy, independent of Fogline's kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fogline.demo.mine import ATTRIBUTES, Flags, Floats, Reports

FOGLINE = "Fogline"
DROP = "drop incomplete rows"
FILL = "fill with the mean of the window"
EXPECT = "fill with the mean of the distribution"  # of the same distributions that Fogline gets
SIGNS = np.array([1.0 if way == "max" else -1.0 for way in ATTRIBUTES.values()])  # (4,) larger is worse


@dataclass(slots=True)
class HitCounts:
    """How often an answer was right, over all sampled ticks together."""

    right: int = 0
    wrong: int = 0  # answered, but not on the true skyline
    overlooked: int = 0  # on the true skyline, but not answered

    def add(self, answered: set[int], true: set[int]) -> None:
        """Count one tick."""
        self.right += len(answered & true)
        self.wrong += len(answered - true)
        self.overlooked += len(true - answered)

    @property
    def precision(self) -> float:
        """The part of the answers that is right."""
        return _share(self.right, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """The part of the true skyline that is found."""
        return _share(self.right, self.right + self.overlooked)

    @property
    def f1(self) -> float:
        """Both in one figure: their harmonic mean."""
        return _share(2 * self.right, 2 * self.right + self.wrong + self.overlooked)


@dataclass(slots=True)
class TruthComparison:
    """The window as it truly is, and how each answer compares with it. Every sensor has one row in the window."""

    sensors: int
    truth: Floats = field(init=False)  # (n, 4) the current readings; NaN: none in the window yet
    known: Floats = field(init=False)  # (n, 4) NaN where lost
    likely: Floats = field(init=False)  # (n, 4) lost ones as the mean of their distribution
    counts: dict[str, HitCounts] = field(
        default_factory=lambda: {each: HitCounts() for each in (FOGLINE, DROP, FILL, EXPECT)}
    )
    samples: int = 0

    def __post_init__(self) -> None:
        self.truth, self.known, self.likely = (np.full((self.sensors, len(ATTRIBUTES)), np.nan) for _ in range(3))

    def take(self, reports: Reports, mean: Floats) -> None:
        """A sensor's new row takes the place of its old one, which expires at the same tick.

        `mean` (k, 4) has the mean of its distribution for every lost value.
        """
        self.truth[reports.who] = reports.truth
        self.known[reports.who] = np.where(reports.lost, np.nan, reports.truth)
        self.likely[reports.who] = mean

    def compare(self, answered: set[int]) -> None:
        """Sample one tick. O(sensors · skyline)."""
        present = ~np.isnan(self.truth[:, 0])
        complete = present & ~np.isnan(self.known).any(axis=1)
        true = chosen(self.truth, present)
        self.samples += 1
        self.counts[FOGLINE].add(answered, true)
        self.counts[DROP].add(chosen(self.known, complete), true)
        self.counts[FILL].add(chosen(filled(self.known), present), true)
        self.counts[EXPECT].add(chosen(self.likely, present), true)


def filled(known: Floats) -> Floats:
    """Each gap becomes the mean of what the window knows of that attribute (of nothing: zero)."""
    count = (~np.isnan(known)).sum(axis=0)
    means = np.nansum(known, axis=0) / np.maximum(count, 1)
    return np.where(np.isnan(known), means, known)


def chosen(values: Floats, among: Flags) -> set[int]:
    """The skyline, in the demo's directions, of the rows marked in `among`: their numbers."""
    rows = np.flatnonzero(among)
    return {int(rows[k]) for k in skyline(values[rows] * SIGNS)}


def skyline(points: Floats) -> list[int]:
    """Which points (n, d) are beaten by no other? Larger is better; equal points do not beat each other.

    A point that beats another has a sum at least as large and, where rounding makes the sums equal, comes first in
    lexicographic order. So in that order the first point left is beaten by none: keep it, drop what it beats, repeat.
    """
    left = np.lexsort((*points.T[::-1], points.sum(axis=1)))[::-1]
    best = []
    while len(left):
        best.append(int(left[0]))
        first, others = points[left[0]], points[left]
        beaten = (others <= first).all(axis=1) & (others < first).any(axis=1)
        left = left[1:][~beaten[1:]]
    return best


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
