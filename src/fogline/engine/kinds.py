"""Which kind of group answers a query?

Its rows count until they expire, or the newest of each id does; and the answer is a skyline or a skyband.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fogline.engine.group import Group, WindowGroup
from fogline.engine.latest import LatestGroup
from fogline.engine.skyband import SkybandLiveSet
from fogline.query import Query

if TYPE_CHECKING:
    from fogline.impute.chain import Chain


def new_group(
    query: Query,
    chain: Chain | None,
    instances: int,
    remember: float,
    *,
    width: int | None = None,
    points: bool = False,
) -> Group:
    """A group that nothing has reached.

    `remember`: how long an id that was removed is known to be so; `width`: how many numbers are kept of a row, if not
    as many as the chain asks for; `points`: see `rows.names.Contents`.
    """
    d, alpha, marks = len(query.names), query.alpha, len(query.carry)  # marks: which of these cells were imputed
    width = (0 if chain is None else chain.width) if width is None else width
    fill, shared, note = (None, None, None) if chain is None else (chain.fill_sharing, chain.shared, chain.note)
    group: Group
    if query.latest:
        group = LatestGroup(d, alpha, instances, width + marks, fill, shared, remember, points)
    else:
        group = WindowGroup(d, alpha, query.last, instances, width, fill, shared, note)
    if query.skyband > 1:
        group.live = SkybandLiveSet(
            d, alpha, query.skyband, by_id=query.latest, instances=instances, known=width + marks, fill=fill,
            note=note, shared=shared,
        )  # fmt: skip
    group.chain = chain
    return group
