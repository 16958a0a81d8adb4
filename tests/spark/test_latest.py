"""What does a pipeline do with a question that it cannot answer yet?"""

from __future__ import annotations

import pytest

import fogline as fl
from fogline.spark import watch


def test_a_pipeline_states_that_it_does_not_answer_for_the_newest_rows(spark):
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", latest=True)
    with pytest.raises(fl.QueryError, match="latest is not answered on a pipeline yet; give the rows to a Monitor"):
        watch(spark.createDataFrame([("x", 1, 1.0)], "id string, t long, a double"), query)
