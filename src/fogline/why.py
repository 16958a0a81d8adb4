"""Why are rows in or out? What the live set knows of them, beside what their imputers do.

For the rows of one group, all at once; a `Monitor` asks it, and so does a pipeline of the groups that it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fogline.arrays import Ints
from fogline.impute.chain import Chain
from fogline.impute.imputed import imputed_cells
from fogline.model import Query
from fogline.skyline.explain import WORK, explain
from fogline.skyline.explanation import Explanation
from fogline.skyline.live import Live


def explained(
    live: Live,
    slots: Sequence[int] | Ints,
    by: tuple[Any, ...],
    show: Callable[[float], Any],
    query: Query,
    chain: Chain | None = None,
    *,
    work: int = WORK,
) -> list[Explanation]:
    """The explanations of live rows, in the order of their slots as given; nothing of the live set changes by it.

    `by`: the group's values; `show`: an instant as the user sees it, as `rows.clock.show_time`; `chain`: what imputes
    the rows' missing values, if anything does. `work`: how many places of a row times rivals are looked at together; a
    row that has more is looked at coarsely, and is `approximate`: less work for what must be quick.
    """
    which = np.asarray(slots, np.int64)
    tally = None if chain is None else replace(chain.tally)
    found = explain(live, which, by, show, query, work)
    if chain is None or tally is None:
        return found
    chain.tally = tally  # to explain a row revises nothing
    s = live.slots
    cells = imputed_cells(chain, s.known[which], query.plausible(s.raw[which]), [each.cloud for each in found])
    return [replace(each, imputed=some) for each, some in zip(found, cells, strict=True)]
