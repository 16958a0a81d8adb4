"""Which columns does a topic have? What the query asks for, and nothing else: no message has to be looked at.

So a run begins the same way on an empty topic and on a full one. What the query compares comes as the text or number of
its JSON value, as in files; names are texts: 7 and "7" are one id. Beside the value, the query may name what a message
has otherwise: `kafka.key`, `kafka.timestamp`, `kafka.headers.NAME`, and `kafka.partition`, `kafka.offset`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from fogline.errors import QueryError, did_you_mean
from fogline.files.options import Options
from fogline.files.roles import Roles
from fogline.files.settled import Layout
from fogline.queries import Asked
from fogline.rows.cells import is_text
from fogline.rows.clock import CLOCKS, ZONED, meant_by

KIND = "topic"  # of a layout
PREFIX = "kafka."
HEADERS = f"{PREFIX}headers."
BESIDE = {
    f"{PREFIX}key": pa.string(),
    f"{PREFIX}timestamp": ZONED,
    f"{PREFIX}partition": pa.int64(),
    f"{PREFIX}offset": pa.int64(),
}


def layout_of_topic(
    query: Asked, options: Options, *, also: Iterable[str] = (), clock: str | None = None, lateness: Any = 0
) -> Layout:
    """How messages are read for this query. `also`: columns that the repository's rules ask for."""
    if clock not in (None, *CLOCKS):
        raise QueryError(f"clock is {clock!r}; it may be 'number' or 'timestamp'.")
    roles = Roles.of(query)
    names = dict.fromkeys([*roles.names, *roles.times, *roles.numbers, *also])
    columns = pa.schema([(name, _kind_of(name)) for name in names])
    times = [name for name in (query.time, query.expires) if name is not None and is_text(columns.field(name).type)]
    meant = clock or ("timestamp" if options.time_format or options.zone else None) or meant_by(query, lateness)
    if times and meant is None:
        raise QueryError(
            f"the query does not show whether the times in {times[0]!r} mean numbers or timestamps; state it: "
            "--clock number, or --clock timestamp."
        )
    versions = "number" if query.version is not None and is_text(columns.field(query.version).type) else ""
    return Layout(KIND, options, columns, roles, (meant or "") if times else clock or "", versions)


def _kind_of(name: str) -> pa.DataType:
    if not name.startswith(PREFIX) or name.startswith(HEADERS):
        return pa.string()
    if name not in BESIDE:
        known = [*BESIDE, f"{HEADERS}NAME"]
        raise QueryError(f"a message has no {name!r}; it has {', '.join(known)}.{did_you_mean(name, known)}")
    return BESIDE[name]


def asked_beside(layout: Layout) -> list[str]:
    """The columns that do not come from the value."""
    return [name for name in layout.columns.names if name.startswith(PREFIX)]
