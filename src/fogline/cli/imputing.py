"""How is `impute` done, in this process or on Spark? The rows are the same."""

from __future__ import annotations

from fogline.cli.engine import Where
from fogline.cli.progress import stages
from fogline.cli.terminal import remark
from fogline.errors import FoglineError
from fogline.files.options import Options
from fogline.files.paths import is_local
from fogline.files.reading import table
from fogline.files.writing import write_folder
from fogline.impute.written import completed, distributions, incomplete
from fogline.query import Query
from fogline.repository.repository import Repository


def imputed(
    stream: str,
    query: Query,
    options: Options,
    known: Repository,
    output: str,
    where: Where,
    *,
    overwrite: bool,
    fill: bool = False,
) -> None:
    """What each missing value of these files may be, written; or, with `fill`, the rows with each gap filled."""
    if fill and not (where.here and is_local(output)):
        raise FoglineError(
            "--fill completes rows in this process: it needs files and output on this machine, less than 2 GB, and no "
            "--master; or join what impute writes with the rows."
        )
    if where.here and is_local(output):
        with stages("reading the rows") as report:
            rows = table(stream, query, options, remark)
            report("imputing", 0, 0)
            found = completed(rows, query, known) if fill else distributions(rows, query, known)
            if fill and (left := incomplete(found, query)):
                remark(f"{left:,} rows cannot be taken, and keep their gaps; `fogline check` names the reasons.")
            report("writing", 0, 0)
            write_folder(found, output, overwrite=overwrite)
        return
    with where.spark() as (spark, report):
        from fogline.spark import files
        from fogline.spark.imputing import impute
        from fogline.spark.progress import followed

        filled = impute(files.table(spark, stream, query, options, remark), query, known)
        with followed(spark, "imputing", report):
            files.write(filled, output, overwrite=overwrite)
