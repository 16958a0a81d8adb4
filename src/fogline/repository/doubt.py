"""Would a table's rows with gaps be better left out, or filled by means, than by what a repository gives?

Judged on the newest tenth of its history, by what is used where rows have no before and after: other attributes, rules,
the whole history. Nothing is fitted for it, and what was found is kept with the repository.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fogline.errors import HistoryWarning
from fogline.repository.imputed import LITTLE, imputation
from fogline.repository.methods import PLAIN
from fogline.repository.others import FEWEST

if TYPE_CHECKING:
    from fogline.repository.repository import Repository


class Errors(NamedTuple):
    """How far off an attribute is on held-out rows."""

    given: float  # by what the repository gives for a row alone
    mean: float  # by the attribute's mean
    nothing: float  # by its distribution over the history


def doubt(repository: Repository, names: Sequence[str], kept: dict[str, Errors | None]) -> None:
    """Warn of each of these attributes, which have gaps, for which something plain would do better.

    `kept`: what was found before, and is found now.
    """
    for name in names if repository.method not in PLAIN else ():
        found = kept[name] if name in kept else kept.setdefault(name, _errors(repository, name))
        if found is None:
            continue
        better = []
        if found.given > found.mean:
            better.append(f"filling it with its mean does better ({found.mean:.3g})")
        if found.given > LITTLE * found.nothing:
            better.append(f"knowing nothing is off by {found.nothing:.3g}, so rows that lack it may better be left out")
        if better:
            warnings.warn(
                f"on held-out rows, what the repository gives for {name!r} is off by {found.given:.3g}: "
                f"{', and '.join(better)}.",
                HistoryWarning,
                stacklevel=4,
            )


def _errors(repository: Repository, name: str) -> Errors | None:
    """None: too few rows have the attribute to judge by, or the user chose to learn nothing about it."""
    if repository.method == "given" and not any(rule.then == name for rule in repository.rules):
        return None  # as the user chose
    there = int(np.count_nonzero(~np.isnan(repository.history.columns[name].values)))
    if there // 10 < FEWEST:
        return None
    found = imputation(repository.history, name, repository.rules, None, again=True)
    if found is None:
        return None
    others = repository.others.get(name)
    given = found.otherwise if others is None else min(others.error, found.otherwise)
    return Errors(given, found.mean, found.nothing)
