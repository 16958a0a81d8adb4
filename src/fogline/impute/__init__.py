"""What may a gap be? Imputers, and the chain that asks them in order.

`Monitor(query, imputer=…)` and `spark.watch(…, imputer=…)` take any object of the protocol `Imputer`, for instance
`knn`, or a plain function from a record batch to distributions.
"""

from typing import TYPE_CHECKING

from fogline.face import offer

if TYPE_CHECKING:
    from fogline.impute.protocol import Evidence, Function, ImputeFunction, Imputer
    from fogline.impute.row import Neighbours, knn

__all__ = ["Evidence", "Function", "ImputeFunction", "Imputer", "Neighbours", "knn"]

offer(
    __name__,
    {
        "protocol": ("Evidence", "Function", "ImputeFunction", "Imputer"),
        "row": ("Neighbours", "knn"),
    },
)
