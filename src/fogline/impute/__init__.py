"""What may a gap be? Imputers, and the chain that asks them in order.

`Monitor(query, imputer=…)` and `spark.watch(…, imputer=…)` take any object of the protocol `Imputer`, for instance
`knn`, or a plain function from a record batch to distributions. To add an imputer, read `protocol` (what it is, with an
example) and `chain.chain_of` (the list of those that are asked, in order).
"""

from typing import TYPE_CHECKING

from fogline.face import offer

if TYPE_CHECKING:
    from fogline.impute.own import Function, ImputeFunction, Neighbours, knn
    from fogline.impute.protocol import Evidence, Imputer
    from fogline.impute.written import distributions

__all__ = ["Evidence", "Function", "ImputeFunction", "Imputer", "Neighbours", "distributions", "knn"]

offer(
    __name__,
    {
        "own": ("Function", "ImputeFunction", "Neighbours", "knn"),
        "protocol": ("Evidence", "Imputer"),
        "written": ("distributions",),
    },
)
