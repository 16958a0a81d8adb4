"""What happens down there, and which of it never reaches the surface?

A ring of galleries with sensors along it. A fire and a gas leak creep along the ring, so the most dangerous places
move from one gallery to the next. Every sensor reports once per `PERIOD`; cells get lost in bursts, more often near
the danger, because heat and gas break sensors (the idea is Table 1 of the paper, grown up).

The same seed gives the same mine, whose shifts differ in what happens. What is lost depends on the place and on
chance, never on the lost value itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]

ATTRIBUTES = {"temperature": "max", "gas": "max", "dust": "max", "oxygen": "min"}  # the way that is more dangerous
DECIMALS = (1, 2, 1, 2)  # the steps of the instruments: 0.1 °C, 0.01 % CH₄, 0.1 mg/m³, 0.01 % O₂
GALLERIES = ("Anna", "Bertha", "Clara", "Dora", "Emma", "Flora", "Greta", "Hilda")
OPENING = datetime(2024, 5, 6, 6, 0, 0, tzinfo=UTC)
STEP = timedelta(seconds=5)  # between ticks
PERIOD = 24  # ticks between two reports of a sensor: two minutes
SHIFT = 5760  # ticks: eight hours
MEMORY = 0.99  # how much of its deviation a place keeps from tick to tick


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that creeps along the ring and changes what sensors see."""

    effect: tuple[float, float, float, float]  # at its heart, per attribute
    start: float  # in galleries along the ring
    pace: float  # galleries per minute; negative: the other way round
    reach: float  # in galleries

    def strength(self, where: Floats, minutes: float) -> Floats:
        """Between 0 and 1 for each place (n,) of the ring."""
        ring = len(GALLERIES)
        apart = np.abs(where - (self.start + self.pace * minutes)) % ring
        near: Floats = np.exp(-((np.minimum(apart, ring - apart) / self.reach) ** 2))
        return near


TROUBLES = (
    Trouble(effect=(30.0, 0.1, 8.0, -2.5), start=1.5, pace=0.08, reach=0.3),  # a fire: heat, smoke, no air
    Trouble(effect=(0.0, 1.8, 0.0, -0.6), start=6.5, pace=-0.05, reach=0.4),  # a gas leak
)


@dataclass(frozen=True, slots=True)
class Reports:
    """The readings of a tick as they are, and which of them do not arrive."""

    when: datetime
    who: Indices  # (k,) sensors that report, by number
    truth: Floats  # (k, 4)
    lost: Flags  # (k, 4)

    def complete(self) -> Reports:
        """The same with nothing lost."""
        return replace(self, lost=np.zeros_like(self.lost))


class Mine:
    """`sensors` of them along the ring, read tick by tick. Shift 0 begins at the opening, shift -1 before it."""

    def __init__(self, sensors: int, seed: int, shift: int = 0) -> None:
        self.random = np.random.default_rng(seed)  # for the mine itself
        self.where: Floats = np.linspace(0, len(GALLERIES), sensors, endpoint=False)  # (n,) in galleries along the ring
        self.names = _names(self.where)
        self.turn: Indices = self.random.permutation(sensors) % PERIOD  # (n,) at which tick of a period it reports
        self.usual = self._usual(sensors)  # (n, 4)
        self.random = np.random.default_rng((seed, 1 + abs(shift)))  # for what happens in this shift
        self.wander: Floats = self.random.normal(size=(sensors, 4))  # (n, 4) in units of the spread below
        self.broken: Indices = np.zeros((sensors, 4), np.int64)  # (n, 4) reports still to be lost
        self.ticks = shift * SHIFT  # since the opening

    def _usual(self, n: int) -> Floats:
        """What is normal at each place, when nothing is wrong."""
        heat = 24 + 2.0 * self.random.normal(size=n)
        gas = 0.25 * np.exp(0.4 * self.random.normal(size=n))
        dust = self.random.gamma(4.0, 0.8, size=n)
        oxygen = 20.6 - 0.1 * np.abs(self.random.normal(size=n))
        return np.column_stack([heat, gas, dust, oxygen])

    def readings(self) -> Floats:
        """What all sensors (n, 4) read now, nothing lost: how a shift begins."""
        return self._read(np.arange(len(self.where)))

    def tick(self) -> Reports:
        """Let `STEP` pass and read the sensors whose turn it is. O(sensors)."""
        fresh = self.random.normal(size=self.wander.shape)
        self.wander = MEMORY * self.wander + np.sqrt(1 - MEMORY**2) * fresh
        who = np.flatnonzero(self.turn == self.ticks % PERIOD)
        reports = Reports(OPENING + self.ticks * STEP, who, self._read(who), self._fail(who))
        self.ticks += 1
        return reports

    def _read(self, who: Indices) -> Floats:
        values = self.usual[who] + np.array([0.5, 0.03, 0.4, 0.05]) * self.wander[who]
        for trouble in TROUBLES:
            values += trouble.strength(self.where[who], self._minutes())[:, None] * np.array(trouble.effect)
        values = np.maximum(values, 0.0)
        return np.column_stack([np.round(values[:, j], places) for j, places in enumerate(DECIMALS)])

    def _fail(self, who: Indices) -> Flags:
        """Bursts: a cell that fails stays silent for three reports on average."""
        danger = np.max([each.strength(self.where[who], self._minutes()) for each in TROUBLES], axis=0)
        left = np.maximum(self.broken[who] - 1, 0)
        fails = self.random.random(left.shape) < (0.02 + 0.1 * danger)[:, None]
        self.broken[who] = np.where(fails & (left == 0), self.random.geometric(1 / 3, left.shape), left)
        lost: Flags = self.broken[who] > 0
        return lost

    def _minutes(self) -> float:
        return self.ticks * STEP / timedelta(minutes=1)


def _names(where: Floats) -> list[str]:
    """'C-07' is the seventh sensor of gallery Clara."""
    names = []
    for gallery in range(len(GALLERIES)):
        inside = np.count_nonzero(where.astype(np.int64) == gallery)
        names += [f"{GALLERIES[gallery][0]}-{k:02d}" for k in range(1, inside + 1)]
    return names


def gallery_of(name: str) -> str:
    """The gallery a sensor's name begins with."""
    return next(gallery for gallery in GALLERIES if gallery[0] == name[0])
