"""Do the rules that the paper prints for its real sets hold on them, and how good are answers that rest on them?

First each rule of Table 7 against R, 120,000 rows of the set at random, scaled to [0, 10] as in the paper: `fl.verify`
counts the rows that break it: within 0.001 of another row in the determinant, and further than δ from it in the
dependent attribute. Beside it the least δ with which it would hold. Then F, with these rules and with others:
`discovered` are found in R by the paper's method, both with all their values; `mul`, `con` and the
last value look at no rule.

Where the original of a set is not at hand, a slice of it is measured, or a set that stands in for it: tables have the
number of rows.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from fogline import verify
from fogline.arrays import Floats
from fogline.impute.protocol import Imputer
from fogline.query import Query
from fogline.repository.rules import as_rules
from lab.case import AT, ID, PROTOCOLS, Case, Settings, data_set_of, read, scale
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.common import SHORT, case_at, listed, sets
from lab.experiments.fscore import CLOSE, EVERY, TICKS, leaps
from lab.imputers import imputer
from lab.imputers.rules import DD, instances_of
from lab.paper.rules import TABLE_7, printed_rules
from lab.race import accuracies, truth_answers

HOLDS, SCORES = "holds", "F"
PRINTED, DISCOVERED = "printed", "discovered"
OTHERS = ("mul", "con", "last")
SEEDS = (1, 2, 3, 4, 5)


def trials(scope: Scope) -> list[Knobs]:
    return [
        {"set": name, "protocol": protocol, "seed": seed}
        for name in sets(scope, tuple(TABLE_7))
        for protocol in PROTOCOLS
        for seed in SEEDS[: 1 if scope.quick else None]
    ]


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    """Rules are checked in a set's first trial."""
    name, first = str(knobs["set"]), knobs["seed"] == SEEDS[0] and knobs["protocol"] == PROTOCOLS[0]
    found = [{"part": HOLDS, **row} for row in checked(name, scope)] if first else []
    return found + [{"part": SCORES, **row} for row in scored(window_of(name, knobs, scope))]


def checked(name: str, scope: Scope) -> list[dict[str, Scalar]]:
    """A row for each rule."""
    assert scope.data is not None
    names, values, _ = read(data_set_of(name), scope.data, Settings())
    values, many = scale(values, values), min(len(values), Settings().history // (10 if scope.quick else 1))
    values = values[np.random.default_rng(21).choice(len(values), many, replace=False)]
    history = pa.table({each: values[:, j] for j, each in enumerate(names)})
    query = Query(attributes=dict.fromkeys(names, "max"), id=ID, time=AT, lifetime=1)
    broken = {str(each.rule): each.rows for each in verify(printed_rules(name), history, query, most=1)}
    rows: list[dict[str, Scalar]] = []
    for rule in as_rules(printed_rules(name)):
        [(given, radius)] = rule.given.items()
        needed = least_delta(values[:, names.index(given)], values[:, names.index(rule.then)], radius)
        rows.append(
            {"rule": str(rule), "does it hold": str(rule) not in broken, "delta": rule.within, "needed": needed,
             "broken_percent": 100 * broken.get(str(rule), 0) / len(values), "rows": len(values),
             "levels": len(np.unique(values[:, names.index(given)]))}
        )  # fmt: skip
    return rows


def least_delta(given: Floats, then: Floats, radius: float) -> float:
    """How far apart are two rows in `then` at most that are within the radius in `given`?

    >>> least_delta(np.array([0.0, 0.5, 3.0]), np.array([1.0, 4.0, 9.0]), 1.0)
    3.0
    """
    order = np.argsort(given)
    given, then = given[order], then[order]
    levels, first = np.unique(given, return_index=True)
    last = np.searchsorted(given, levels + radius, "right")
    begin = np.searchsorted(given, levels - radius, "left")
    most = 0.0
    for a, b, own in zip(begin.tolist(), last.tolist(), first.tolist(), strict=True):
        if b - a > 1:
            most = max(most, float(then[a:b].max() - then[own]), float(then[own] - then[a:b].min()))
            most = max(most, float(np.ptp(then[own:b][given[own:b] == given[own]])))
    return most


def window_of(name: str, knobs: Knobs, scope: Scope) -> Case:
    """Each seed has a window of its own, where the set is long enough."""
    seed, protocol = int(knobs["seed"] or 1), str(knobs["protocol"])
    ticks = {} if name in SHORT else {"ticks": EVERY + 1 if scope.quick else TICKS}
    return case_at(name, scope, 0 if name in SHORT else seed - 1, seed=seed, protocol=protocol, **ticks)


def scored(case: Case) -> list[dict[str, Scalar]]:
    """A row for every answer with each imputer."""
    at = range(case.full, case.length, EVERY)
    truth = truth_answers(case, at)
    rows: list[dict[str, Scalar]] = []
    for name, imputing in _imputers(case).items():
        many = instances_of(imputing, case) if isinstance(imputing, DD) else 1.0
        for k, one in accuracies(case, leaps(case, imputing, at), truth).items():
            rows.append(
                {"imputer": name, "tick": k, "f": one.f, "precision": one.precision, "recall": one.recall,
                 "instances": many}
            )  # fmt: skip
    return rows


def _imputers(case: Case) -> dict[str, Imputer]:
    found: dict[str, Imputer] = {}
    for name, rules in ((PRINTED, printed_rules(case.name)), (DISCOVERED, None)):
        made = DD(rules, values=None)
        made.fit(case.history, case.query)
        found[name] = made
    return found | {name: imputer(name, case) for name in OTHERS}


def least(frame: pd.DataFrame) -> str:
    """Per set, of how many rules of Table 7 the data are in order."""
    parts = []
    for name, rows in frame.groupby("set", sort=False):
        held, worst = rows["does it hold"].astype(bool), rows.iloc[int(rows["broken_percent"].argmax())]
        parts.append(
            f"{name} ({int(rows['rows'].iloc[0]):,} rows): {held.sum()} of {len(rows)} hold; {worst['rule']} is broken "
            f"by {worst['broken_percent']:.3g} % of the rows, and would hold with δ = {worst['needed']:.3g}"
        )
    return "; ".join(parts)


def reading(frame: pd.DataFrame) -> Reading:
    checked, scored = frame[frame["part"] == HOLDS], frame[frame["part"] == SCORES]
    texts = [f"{least(checked)}."] if len(checked) else []
    for protocol, rows in scored.groupby("protocol", sort=False):
        f = rows.groupby(["set", "imputer"], sort=False)["f"].mean().unstack("imputer")
        shown = [
            f"{name} {row[PRINTED]:.3f} with the paper's rules, {row[DISCOVERED]:.3f} with discovered ones, at best "
            f"{row[list(OTHERS)].max():.3f} without any"
            for name, row in f.iterrows()
        ]
        close = [str(name) for name, row in f.iterrows() if row[PRINTED] >= CLOSE]
        texts.append(
            f"F, protocol {protocol}: {listed(shown)}; with the paper's rules {CLOSE:g} is reached on "
            f"{listed(close) if close else 'no set'}."
        )
    return Reading("beyond the paper", " ".join(texts))


RULES = Experiment(
    timed=False,
    name="rules",
    title="The paper's own rules on real data",
    figure="Table 7",
    question="Does each printed rule hold, and what is F with the paper's own rules?",
    claim="Rules are found by scanning all complete objects of R, so they hold there; F with them is close to 100 %.",
    trials=trials,
    measure=measure,
    plots=(
        Plot("Does it hold?", "rule", "does it hold", facet="set", where={"part": HOLDS}, kind="table"),
        Plot("Rows that break it, in per cent", "rule", "broken_percent", facet="set", where={"part": HOLDS},
             kind="table"),
        Plot("The least δ with which it would hold", "rule", "needed", facet="set", where={"part": HOLDS},
             kind="table"),
        *(Plot(f"F, R: {protocol}", "set", "f", "imputer", where={"part": SCORES, "protocol": protocol}, kind="table",
               spread=True, per=("seed",)) for protocol in PROTOCOLS),
    ),
    read=reading,
)  # fmt: skip
