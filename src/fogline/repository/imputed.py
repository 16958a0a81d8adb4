"""By what is each attribute imputed, how far off is that, and would something plain do better?

Judged on the newest tenth of the history, from the rest of it: the errors (mean CRPS, in the attribute's own unit) of
what is imputed, of the sensor's last value again, of the attribute's mean, and of what would be given without sensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fogline.model import Rule
from fogline.repository.held_out import HeldOut
from fogline.repository.history import History
from fogline.repository.sensors.transition import Transition

PAST, HINDSIGHT, RULES, WHOLE = "sensor's own past", "sensor's past, then hindsight", "rules", "whole history"
LITTLE = 0.9  # of the error of knowing nothing: if more is left, little is learnt


@dataclass(frozen=True, slots=True)
class Imputation:
    """How one attribute is imputed."""

    attribute: str
    imputer: str
    error: float
    """Mean CRPS on held-out rows: of the past alone, where there is hindsight too."""
    hindsight: float | None
    """The same once the sensor has spoken again."""
    last: float | None
    """Of the sensor's last value again; None where sensors have none."""
    mean: float
    """Of the attribute's mean."""
    otherwise: float
    """Of what would be given without sensors: by rules, or the whole history."""
    nothing: float
    """Of the attribute's distribution over the whole history."""
    note: str
    """What to think of it; empty where there is nothing to say."""


def imputation(
    history: History, name: str, rules: Sequence[Rule], transition: Transition | None, *, again: bool
) -> Imputation | None:
    """How one attribute is imputed; None where too few rows have it. `again`: whether sensors are read again."""
    held_out = HeldOut(history, name)
    if not held_out.possible:
        return None
    otherwise, nothing = float(held_out.scores(rules).mean()), float(held_out.level_0.mean())
    mean = float(np.abs(held_out.truth - held_out.donors.columns[name].values.mean()).mean())
    if transition is None:
        imputer = RULES if any(rule.then == name for rule in rules) else WHOLE
        note = _note(otherwise, None, mean, nothing, again=again)
        return Imputation(name, imputer, otherwise, None, None, mean, otherwise, nothing, note)
    imputer = PAST if transition.between is None else HINDSIGHT
    later = None if transition.between is None else transition.error_between
    note = _note(transition.error, transition.error_last, mean, nothing, again=True)
    return Imputation(name, imputer, transition.error, later, transition.error_last, mean, otherwise, nothing, note)


def _note(error: float, last: float | None, mean: float, nothing: float, *, again: bool) -> str:
    notes = []
    if error > mean:
        notes.append("the attribute's mean does better")
    if last is not None and error > last:
        notes.append("the last value does better")
    if error > LITTLE * nothing:
        notes.append("little is learnt: rows with gaps here are better left out than trusted")
    if not again and notes:
        notes.append(
            "nothing is learnt from sensors' own readings: does the query's id name them, are they read again?"
        )
    return "; ".join(notes)
