"""Does a wrong question get a helpful answer?"""

import pickle
from datetime import timedelta
from typing import Any

import pytest

import fogline as fl
from fogline.query import duration
from fogline.repository.rules import load as load_rules

GOOD = {"attributes": {"temp": "max", "oxygen": "min"}, "id": "sensor", "time": "ts", "lifetime": "5 minutes"}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"attributes": {}}, "attributes maps each attribute"),
        ({"attributes": {"temp": "up"}}, "'temp' is 'up'"),
        ({"alpha": 1}, r"\[0, 1\)"),
        ({"alpha": -0.1}, r"\[0, 1\)"),
        ({"alpha": float("nan")}, r"\[0, 1\)"),
        ({"alpha": "half"}, r"\[0, 1\)"),
        ({"last": 5}, "lifetime and last"),
        ({"lifetime": None}, "Say how long a row counts"),
        ({"lifetime": 0}, "for some time"),
        ({"lifetime": "soon"}, "is not a duration"),
        ({"lifetime": "5 parsecs"}, "not a unit of time"),
        ({"lifetime": None, "last": 0}, "at least 1"),
        ({"limits": {"tmep": (0, 1)}}, "Did you mean 'temp'"),
        ({"limits": {"temp": (1, 0)}}, "nothing lies between"),
        ({"limits": {"temp": 3}}, r"\(lowest, highest\)"),
        ({"by": ["temp"]}, "used twice"),
        ({"id": "ts"}, "used twice"),
        ({"attributes": {"probability": "max"}}, "collide"),
        ({"outside": "ignore"}, "'missing' or 'reject'"),
        ({"alhpa": 0.5}, "Did you mean 'alpha'"),
    ],
)
def test_a_wrong_query_is_an_error_that_names_what_is_wrong(wrong, text):
    with pytest.raises(fl.errors.QueryError, match=text):
        fl.Query.from_dict(GOOD | wrong)


def test_a_query_that_lacks_a_field_is_an_error_that_names_it():
    with pytest.raises(fl.errors.QueryError, match="has no id and no time"):
        fl.Query.from_dict({"attributes": {"a": "max"}})


def test_a_query_survives_yaml_dicts_and_pickling(tmp_path):
    path = tmp_path / "q.yaml"
    path.write_text(
        "attributes: {temp: max}\nid: s\ntime: t\nlast: 7\nby: [site]\nlimits: {temp: [-40, 125]}\nalpha: 0.1\n"
    )
    query = fl.Query.load(path)
    assert (query.last, query.by, query.limits["temp"], query.alpha) == (7, ("site",), (-40.0, 125.0), 0.1)
    for again in (fl.Query.from_dict(query.to_dict()), pickle.loads(pickle.dumps(query))):
        assert again == query
        assert again.fingerprint() == query.fingerprint()


def test_the_same_lifetime_in_other_words_is_the_same_question():
    words = ["5 minutes", "300 s", "300000 ms", timedelta(minutes=5), "4 min 60 sec"]
    assert len({fl.Query.from_dict(GOOD | {"lifetime": each}).fingerprint() for each in words}) == 1


def test_durations_are_read_in_microseconds():
    assert duration("1.5 hours") == 5_400_000_000
    assert duration("1 day, 2 hours") == 26 * 3_600_000_000


def test_a_missing_or_broken_query_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(fl.errors.QueryError, match="there is no query file"):
        fl.Query.load(tmp_path / "no.yaml")
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(fl.errors.QueryError, match="is not YAML"):
        fl.Query.load(tmp_path / "bad.yaml")


def test_names_in_a_query_file_are_texts_however_they_look(tmp_path):
    path = tmp_path / "q.yaml"
    path.write_text(
        "attributes: {NO: min, on: max, 1e3: max, null: min}\nid: y\ntime: 2024-01-01\nby: [off, 12]\nlast: 7\n"
    )
    query = fl.Query.load(path)
    assert query.names == ("NO", "on", "1e3", "null")
    assert (query.id, query.time, query.by, query.last) == ("y", "2024-01-01", ("off", "12"), 7)
    path.write_text("attributes: {a: min}\nid: s\ntime: t\nexpires: ~\nlifetime: 5\nby: yes\nlimits: {a: [0, 1]}\n")
    query = fl.Query.load(path)
    assert (query.expires, query.lifetime, query.by, query.limits["a"]) == (None, 5.0, ("yes",), (0.0, 1.0))
    rules = tmp_path / "rules.yaml"
    rules.write_text("- {given: {NO: 1, on: 0.5}, then: off, within: 2}\n")
    assert [str(rule) for rule in load_rules(rules)] == ["NO(1), on(0.5) -> off(2)"]


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("attributes: {a: min, b: max, a: max}\nid: s", "line 1: 'a' is there twice"),
        ("id: s\ntime: t\nid: u", "line 3: 'id' is there twice"),
        ("attributes: {[a]: min}", "a name is one word"),
    ],
)
def test_a_query_file_that_contradicts_itself_is_refused(tmp_path, text, stated):
    (tmp_path / "q.yaml").write_text(text)
    with pytest.raises(fl.errors.QueryError, match=stated):
        fl.Query.load(tmp_path / "q.yaml")


def test_a_rule_reads_like_a_sentence_and_refuses_nonsense():
    assert (
        str(fl.Rule({"voltage": 0.01, "light": 5}, "temperature", 0.5)) == "voltage(0.01), light(5) -> temperature(0.5)"
    )
    for given, then, within in [({}, "a", 1), ({"a": 1}, "a", 1), ({"b": -1}, "a", 1), ({"b": 1}, "a", float("nan"))]:
        with pytest.raises(fl.errors.RuleError):
            fl.Rule(given, then, within)


# --- The newest row of each id ----------------------------------------------------------------------------------------

CURRENT: dict[str, Any] = {"attributes": {"temp": "max", "oxygen": "min"}, "id": "sensor", "time": "ts", "latest": True}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"last": 5}, "latest keeps one row of each id, and last=5 the newest rows of all; ask for one of them"),
        ({"latest": "yes"}, "latest is 'yes'; it is true"),
        ({"latest": False, "lifetime": 5, "gone": "x"}, "gone is for queries in which the newest row .* add latest"),
        ({"latest": False, "lifetime": 5, "version": "x"}, "version is for queries .* add latest=True"),
        ({"latest": False, "lifetime": 5, "carry": ["temp"]}, "carry is for queries .* add latest=True"),
        ({"latest": False, "lifetime": 5, "remember_removed": 3}, "remember_removed is for queries .* add latest=True"),
        ({"latest": False}, "Say how long a row counts"),
        ({"lifetime": 5, "expires": "e"}, "expires and lifetime"),
        ({"gone": "sensor"}, "gone names a column of its own, not 'sensor', which is the id"),
        ({"gone": "temp"}, "gone names a column of its own, not 'temp', which is the attribute"),
        ({"gone": {"ts": ["d"]}}, "gone names a column of its own, not 'ts', which is the time"),
        ({"version": "ts"}, "version names a column of its own, not 'ts', which is the time"),
        ({"gone": "op", "version": "op"}, "version names a column of its own, not 'op', which is the column of gone"),
        ({"expires": "e", "gone": "e"}, "gone names a column of its own, not 'e', which is the column of expires"),
        ({"gone": {"op": ["d"], "kind": ["x"]}}, r"gone=\{'op': \['d', 'delete'\]\}"),
        ({"gone": {"op": []}}, "lists the values there that remove an id"),
        ({"gone": {"op": [None]}}, "lists the values there that remove an id"),
        ({"gone": 7}, "gone is 7; it names a column"),
        ({"version": 7}, "version names a column of its own, not 7"),
        ({"carry": ["tmep"]}, "carry names 'tmep', which is no attribute .*\nDid you mean 'temp'"),
        ({"carry": ["temp", "temp"]}, "twice"),
        ({"remember_removed": "soon"}, "is not a duration"),
        ({"remember_removed": -1}, "from 0 on"),
        ({"remember_removed": 5, "lifetime": "5 minutes"}, "both are numbers, or both are durations"),
        ({"remember_remvoed": 5}, "Did you mean 'remember_removed'"),
        ({"lastest": True}, "Did you mean 'latest'"),
    ],
)
def test_a_wrong_query_for_the_newest_rows_is_an_error_that_names_what_is_wrong(wrong, text):
    with pytest.raises(fl.errors.QueryError, match=text):
        fl.Query.from_dict(CURRENT | wrong)


def test_a_query_for_the_newest_rows_needs_no_expiry_and_may_have_one():
    assert fl.Query(**CURRENT).lifetime is None
    assert fl.Query(**CURRENT, lifetime=5).lifetime == 5.0
    assert fl.Query(**CURRENT, expires="e").expires == "e"


@pytest.mark.parametrize("gone", ["deleted", {"op": ["d", "no", "1"]}])
def test_a_query_for_the_newest_rows_survives_yaml_dicts_and_pickling(tmp_path, gone):
    written = "deleted" if gone == "deleted" else "{op: [d, no, 1]}"
    path = tmp_path / "q.yaml"
    path.write_text(
        "attributes: {temp: max, oxygen: min}\nid: sensor\ntime: ts\nlatest: true\nversion: on\ncarry: temp\n"
        f"remember_removed: 1 hour\ngone: {written}\n"
    )
    query = fl.Query.load(path)
    fields: dict[str, Any] = {"version": "on", "carry": "temp", "remember_removed": timedelta(hours=1), "gone": gone}
    assert query == fl.Query(**CURRENT, **fields)
    assert (query.latest, query.carry, query.remember_removed) == (True, ("temp",), "3600000000 microseconds")
    assert query.gone_column == ("deleted" if gone == "deleted" else "op")
    for again in (fl.Query.from_dict(query.to_dict()), pickle.loads(pickle.dumps(query))):
        assert again == query
        assert hash(again) == hash(query)
    assert "latest" not in fl.Query.from_dict(GOOD).to_dict()


@pytest.mark.parametrize(
    "line", ["lifetime: 1:30", "lifetime: 1:30.5", "last: 1:00", "alpha: 0:0.5", "limits: {a: [0, 1:30]}"]
)
def test_yaml_never_reads_a_time_as_a_number_of_base_60(line, tmp_path):
    path = tmp_path / "q.yaml"
    path.write_text(f"attributes: {{a: max}}\nid: s\ntime: t\n{line}\n")
    with pytest.raises(
        fl.errors.QueryError, match=r"line 4: .* would be a number of base 60 in YAML; write a length of time"
    ):
        fl.Query.load(path)


def test_in_yaml_a_name_may_look_like_a_time_and_a_quoted_time_is_a_text(tmp_path):
    path = tmp_path / "q.yaml"
    path.write_text("attributes: {a: max}\nid: 1:30\ntime: t\nlifetime: 90 minutes\n")
    assert fl.Query.load(path).id == "1:30"
    path.write_text("attributes: {a: max}\nid: s\ntime: t\nlifetime: '1:30'\n")
    with pytest.raises(fl.errors.QueryError, match="'1:30' is not a duration"):
        fl.Query.load(path)
