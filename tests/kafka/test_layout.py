"""Are the columns of a topic those that the query asks for?"""

from __future__ import annotations

import pyarrow as pa
import pytest

import fogline as fl
from fogline.errors import QueryError
from fogline.files.options import Options
from fogline.files.settled import Layout
from fogline.kafka.topic import asked_beside, layout_of_topic


def test_columns_come_from_the_query_and_the_rules() -> None:
    query = fl.Query(attributes={"x": "max"}, id="s", time="t", expires="e", by=["site"])
    layout = layout_of_topic(query, Options(), also=("humidity", "x"), clock="number")
    assert layout.columns.names == ["s", "site", "t", "e", "x", "humidity"]
    assert {field.type for field in layout.columns} == {pa.string()}
    assert layout.clock == "number"
    assert Layout.from_dict(layout.to_dict(), "kafka://h/t").columns == layout.columns


def test_a_message_s_own_parts_have_their_types() -> None:
    query = fl.Query(
        attributes={"x": "max"}, id="kafka.key", time="kafka.timestamp", lifetime="1 hour", by=["kafka.headers.site"]
    )
    layout = layout_of_topic(query, Options())
    assert asked_beside(layout) == ["kafka.key", "kafka.headers.site", "kafka.timestamp"]
    assert layout.columns.field("kafka.timestamp").type == pa.timestamp("us", "UTC")
    assert layout.clock == ""


def test_what_a_message_does_not_have_is_refused_with_a_guess() -> None:
    query = fl.Query(attributes={"x": "max"}, id="kafka.keys", time="t", lifetime=1)
    with pytest.raises(QueryError, match=r"(?s)a message has no 'kafka.keys'; it has kafka.key, .*Did you mean"):
        layout_of_topic(query, Options())


def test_a_clock_that_the_query_leaves_open_is_to_be_stated() -> None:
    query = fl.Query(attributes={"x": "max"}, id="s", time="t", last=10)
    with pytest.raises(QueryError, match="--clock number, or --clock timestamp"):
        layout_of_topic(query, Options())
    assert layout_of_topic(query, Options(), lateness="3 seconds").clock == "timestamp"
    assert layout_of_topic(query, Options(time_format="%d.%m.%Y %H:%M")).clock == "timestamp"
