"""What is measured? One file per family of experiments: one knob is turned, the rest stays at its default.

The list is in the order of the paper; what goes beyond it comes last.
"""

from __future__ import annotations

from lab.experiment import Experiment
from lab.experiments.beyond import HUGE, MEMORY, RATE, WIDE
from lab.experiments.calibration import CALIBRATION, CEILING
from lab.experiments.cost import BETA_KNOB, COST
from lab.experiments.coverage import COVERAGE
from lab.experiments.efficiency import KNOBS, SETS, M
from lab.experiments.favourable import FAVOURABLE
from lab.experiments.fscore import FSCORE, FSCORE_WINDOW, FSCORE_XI
from lab.experiments.generators import GENERATORS
from lab.experiments.hindsight import HINDSIGHT
from lab.experiments.ladder import LADDER
from lab.experiments.next import NEXT
from lab.experiments.peers import NAN, PEERS
from lab.experiments.pruning import IMPUTED, INSTANCES, PRUNING
from lab.experiments.rules import RULES
from lab.experiments.uncorrected import UNCORRECTED

EXPERIMENTS: dict[str, Experiment] = {
    each.name: each
    for each in (
        INSTANCES, COST, PRUNING, FSCORE, FSCORE_WINDOW, FSCORE_XI, RULES, FAVOURABLE, SETS, LADDER, *KNOBS, M,
        BETA_KNOB,
        IMPUTED, MEMORY, HUGE, WIDE, RATE, CALIBRATION, COVERAGE, CEILING, HINDSIGHT, NEXT, UNCORRECTED,
        GENERATORS, PEERS, NAN,
    )
}  # fmt: skip
