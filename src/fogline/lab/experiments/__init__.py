"""What was measured? One small file per family of experiments: one knob turned, the rest at default, plain rows out.

In the order of the paper; what goes beyond it comes last.
"""

from __future__ import annotations

from fogline.lab.experiment import Experiment
from fogline.lab.experiments.beyond import HUGE, RATE, WIDE
from fogline.lab.experiments.calibration import CALIBRATION
from fogline.lab.experiments.ceiling import CEILING
from fogline.lab.experiments.cost import BETA_KNOB, COST
from fogline.lab.experiments.coverage import COVERAGE
from fogline.lab.experiments.efficiency import SETS
from fogline.lab.experiments.favourable import FAVOURABLE
from fogline.lab.experiments.footprint import MEMORY
from fogline.lab.experiments.fscore import FSCORE, FSCORE_WINDOW, FSCORE_XI
from fogline.lab.experiments.hindsight import HINDSIGHT
from fogline.lab.experiments.imputed import IMPUTED, INSTANCES
from fogline.lab.experiments.knobs import KNOBS
from fogline.lab.experiments.missing import M
from fogline.lab.experiments.next import NEXT
from fogline.lab.experiments.peers import NAN, PEERS
from fogline.lab.experiments.pruning import PRUNING
from fogline.lab.experiments.uncorrected import UNCORRECTED

EXPERIMENTS: dict[str, Experiment] = {
    each.name: each
    for each in (
        INSTANCES, COST, PRUNING, FSCORE, FSCORE_WINDOW, FSCORE_XI, FAVOURABLE, SETS, *KNOBS, M, BETA_KNOB, IMPUTED,
        MEMORY, HUGE, WIDE, RATE, CALIBRATION, COVERAGE, CEILING, HINDSIGHT, NEXT, UNCORRECTED,
        PEERS, NAN,
    )
}  # fmt: skip
