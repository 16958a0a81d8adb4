"""What was measured? One small file per family of experiments: one knob turned, the rest at default, plain rows out.

In the order of the paper; what goes beyond it comes last.
"""

from __future__ import annotations

from lab.experiment import Experiment
from lab.experiments.beyond import HUGE, RATE, WIDE
from lab.experiments.calibration import CALIBRATION
from lab.experiments.ceiling import CEILING
from lab.experiments.cost import BETA_KNOB, COST
from lab.experiments.coverage import COVERAGE
from lab.experiments.efficiency import SETS
from lab.experiments.favourable import FAVOURABLE
from lab.experiments.footprint import MEMORY
from lab.experiments.fscore import FSCORE, FSCORE_WINDOW, FSCORE_XI
from lab.experiments.hindsight import HINDSIGHT
from lab.experiments.imputed import IMPUTED, INSTANCES
from lab.experiments.knobs import KNOBS
from lab.experiments.missing import M
from lab.experiments.next import NEXT
from lab.experiments.peers import NAN, PEERS
from lab.experiments.pruning import PRUNING
from lab.experiments.uncorrected import UNCORRECTED

EXPERIMENTS: dict[str, Experiment] = {
    each.name: each
    for each in (
        INSTANCES, COST, PRUNING, FSCORE, FSCORE_WINDOW, FSCORE_XI, FAVOURABLE, SETS, *KNOBS, M, BETA_KNOB, IMPUTED,
        MEMORY, HUGE, WIDE, RATE, CALIBRATION, COVERAGE, CEILING, HINDSIGHT, NEXT, UNCORRECTED,
        PEERS, NAN,
    )
}  # fmt: skip
