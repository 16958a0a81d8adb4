"""Which rows does a table of a lake hold? `delta:PATH`, read by delta-rs, in this process."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

from fogline.errors import FoglineError
from fogline.files.casting import settled_type

DELTA, JDBC = "delta:", "jdbc:"


def is_table(path: str) -> bool:
    """Whether this names a table, and not files."""
    return path.startswith((DELTA, JDBC))


def delta_table(path: str) -> pa.Table:
    """All rows of a Delta table, in types as files have them; decimals are numbers."""
    if find_spec("deltalake") is None:
        raise FoglineError(
            "to read a Delta table needs deltalake, which is not installed: pip install 'fogline[delta]'"
        )
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    where = path.removeprefix(DELTA)
    if "://" not in where and not Path(where, "_delta_log").is_dir():
        raise FoglineError(f"{where!r} is no Delta table: it has no folder _delta_log.")
    try:
        found = DeltaTable(where).to_pyarrow_table()
    except (DeltaError, OSError) as error:
        raise FoglineError(f"{where!r} cannot be read as a Delta table: {' '.join(str(error).split())[:300]}") from None
    schema = pa.schema([(field.name, _plain(field.type)) for field in found.schema])
    return found.cast(schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.float64() if pa.types.is_decimal(kind) else settled_type(kind)
