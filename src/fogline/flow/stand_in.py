"""Until files are read by a room of their own: how are they read here?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from fogline.flow.listing import _files, kind_of, kind_of_name
from fogline.flow.plan import meant_by
from fogline.model import Query
from fogline.rows.clock import meaning_of


@dataclass(frozen=True)
class Layout:
    kind: str
    columns: str
    clock: str | None = None
    versions: str | None = None
    pattern: str = "*"

    @property
    def schema(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(self.columns)))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Layout:
        return cls(**plain)


def layout_of(
    path: str,
    query: Query,
    options: Any = None,
    *,
    clock: str | None = None,
    lateness: Any = 0,
    remark: Callable[[str], None] = lambda text: None,
) -> Layout:
    kind = kind_of(path, existing=True)
    first = next(_files(path))
    if kind == "parquet":
        schema, meant = pq.read_schema(first).remove_metadata(), clock
    else:
        names = pc.open_csv(first).schema.names
        schema = pa.schema([(name, pa.string()) for name in names])
        rows = next(batches(str(first), Layout(kind, schema.serialize().to_pybytes().hex())))
        meant = clock or meant_by(query, lateness) or meaning_of(rows[query.time].to_pylist())
    return Layout(kind, schema.serialize().to_pybytes().hex(), meant)


def batches(path: str, layout: Layout) -> Iterator[pa.RecordBatch]:
    if layout.kind == "parquet":
        yield from (each.cast(layout.schema) for each in pq.ParquetFile(path).iter_batches(65536))
        return
    kinds = {name: pa.string() for name in layout.schema.names}
    options = pc.ConvertOptions(column_types=kinds, strings_can_be_null=True, null_values=[""])
    yield from pc.open_csv(path, convert_options=options)


def files_of(path: str, layout: Layout) -> list[str]:
    return [str(each.absolute()) for each in _files(path) if kind_of_name(each.name) == layout.kind]
