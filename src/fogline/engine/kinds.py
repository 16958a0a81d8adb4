"""Which kind of group answers a query?

Its rows count until they expire, or the newest of each id does; and the answer is a skyline or a skyband.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fogline.engine.group import Group, WindowGroup
from fogline.engine.latest import LatestGroup, LatestLiveSet
from fogline.engine.live import LiveSet
from fogline.engine.skyband import SkybandLiveSet
from fogline.query import Query

if TYPE_CHECKING:
    from fogline.impute.chain import Chain


def new_group(
    query: Query,
    chain: Chain | None,
    exact_limit: int,
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
    live: LiveSet
    if query.skyband > 1:
        live = SkybandLiveSet(
            d, alpha, query.skyband, by_id=query.latest, exact_limit=exact_limit, known=width + marks, fill=fill,
            note=note, shared=shared,
        )  # fmt: skip
    else:
        kind = LatestLiveSet if query.latest else LiveSet
        live = kind(d, alpha, exact_limit=exact_limit, known=width + marks, fill=fill, note=note, shared=shared)
    if query.latest:
        assert isinstance(live, LatestLiveSet)
        return LatestGroup(live, remember, points=points, chain=chain)
    return WindowGroup(live, query.last, chain)
