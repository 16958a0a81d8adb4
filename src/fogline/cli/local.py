"""How are files of this machine read and written in this process?"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from fogline.model import Query


def read_rows(path: str, query: Query | None) -> pa.Table:
    """STAND-IN until the reader of files is there."""
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.dataset as ds

    from fogline.flow.listing import files_of, kind_of

    kind = kind_of(path, existing=True)
    names = [str(each) for each in files_of(path)]
    if kind == "csv":
        texts = {name: pa.string() for name in (query.id, *query.by)} if query else {}
        convert = pc.ConvertOptions(column_types=texts, strings_can_be_null=True)
        return pa.concat_tables(
            [pc.read_csv(name, convert_options=convert) for name in names], promote_options="permissive"
        )
    return ds.dataset(names, format=kind).to_table()
