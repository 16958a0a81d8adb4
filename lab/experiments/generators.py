"""What do synthetic streams change when they follow the paper?

The paper's generator (`lab/paper/generator.py`) beside the one that keeps seeds apart (`fogline.synthetic`), on the
same settings. Of a full window: what each lemma prunes, the size of layer 1, how many values a gap gets (the median,
and the share of gaps for which there is no close row in R), how many uncertain answers there are, how the answer
changes with α, and how many of the incomplete rows Fogline imputes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from fogline.arrays import Ints
from lab.case import KINDS, Case
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope
from lab.experiments.common import case_of
from lab.experiments.pruning import pruned
from lab.imputers.fittable import evidence_of
from lab.imputers.rules import DD
from lab.maintainers import LiveMaintainer
from lab.race import FOGLINE, Pair, race, system

PAPER, APART = "paper", "apart"
ALPHAS = (0.1, 0.5, 0.9)
MANY = 1_000  # values: more are the whole of R


def trials(scope: Scope) -> list[Knobs]:
    return [{"set": kind, "generator": name} for kind in KINDS for name in (PAPER, APART)]


def measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    name = f"{knobs['set']}-apart" if knobs["generator"] == APART else str(knobs["set"])
    case = case_of(name, scope, ticks=0)
    runner = system("DD-literal+live", case)
    assert isinstance(runner, Pair)
    assert isinstance(runner.maintainer, LiveMaintainer)
    for k, rows in case.ticks():
        answer = runner.advance(k, rows)
    shares = pruned(runner.maintainer.group.live, case.settings.lifetime * case.settings.theta)
    sizes = _instances(runner.imputer, case)
    fogline = race(case, system(FOGLINE, case), warm=0).sizes
    found: dict[str, float] = {f"{part}_percent": 100 * share for part, share in shares.items()}
    found |= {
        "instances": float(np.median(sizes)),
        "without_percent": 100 * float(np.mean(sizes >= MANY)),
        "answers": len(answer.id),
        "uncertain_answers": int(np.count_nonzero(answer.probability < 1 - 1e-9)),
        "imputed_percent": 100 * fogline["imputed"] / max(fogline["incomplete"], 1),
    }
    found |= {f"answers_{alpha:g}": float(len(_answer(case, alpha))) for alpha in ALPHAS}
    return [{"what": what, "value": value} for what, value in found.items()]


def _instances(imputing: object, case: Case) -> Ints:
    """How many values each gap gets."""
    assert isinstance(imputing, DD)
    rows = evidence_of(case.rows, case.query.names)
    known = imputing.look(rows)
    return np.concatenate([imputing.distributions(known, j).size[gaps] for j, gaps in enumerate(rows.missing.T)])


def _answer(case: Case, alpha: float) -> Ints:
    """The rows of the full window's answer."""
    other = replace(case, query=replace(case.query, alpha=alpha))
    return race(other, system("DD-literal+live", other), warm=0, at=[case.full]).answers[case.full].id


def read(frame: pd.DataFrame) -> Reading:
    table = frame.pivot_table(index=["set", "generator"], columns="what", values="value", sort=False)
    parts = []
    for kind in dict.fromkeys(frame["set"]):
        texts = []
        for name in (PAPER, APART):
            if (kind, name) in table.index:
                row = table.loc[(kind, name)]
                texts.append(
                    f"{name}: max-corner {row['max_corner_percent']:.2f} %, "
                    f"min-corner {row['min_corner_percent']:.2f} %, {row['instances']:.0f} values, "
                    f"{row['answers_0.1']:.0f} answers at α = 0.1 and {row['answers_0.9']:.0f} at 0.9, "
                    f"imputed {row['imputed_percent']:.1f} %"
                )
        parts.append(f"{kind} ({'; '.join(texts)})")
    return Reading("beyond the paper", f"{', '.join(parts).capitalize()}.")


GENERATORS = Experiment(
    timed=False,
    name="generators",
    title="The paper's generator, and one that keeps seeds apart",
    figure="beyond the paper",
    question="What has α to act on, and what do the corner lemmas prune, when seeds lie anywhere?",
    claim="",
    trials=trials,
    measure=measure,
    plots=(Plot("Of a full window", "what", "value", "generator", "set", kind="table"),),
    read=read,
)
