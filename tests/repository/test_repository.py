"""Does the repository impute as defined?"""

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.repository.access import SortedAccess, TreeAccess
from fogline.repository.history import in_order, read_history
from fogline.repository.repository import LEVEL_0
from fogline.repository.rules import load, parse
from tests.repository import naive

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "paper.json").read_text())["repository"]


def distribution(found, k):
    part = slice(found.start[k], found.start[k] + found.size[k])
    return dict(zip(found.value[part].tolist(), (found.often[part] / found.often[part].sum()).tolist(), strict=True))


@pytest.mark.parametrize("case", VECTORS["imputations"], ids=lambda case: case["why"][:40])
def test_the_imputations_of_the_papers_table_5_are_exact(case):
    names = VECTORS["columns"]
    query = fl.Query(attributes=dict.fromkeys(names, "max"), id="id", time="t", last=1)
    history = [dict(zip(names, row, strict=True)) for row in VECTORS["rows"]]
    repository = fl.Repository.fit(history, query, rules=[VECTORS["rules"][k] for k in case["use"]])
    centres = {name: np.array([np.nan if x is None else x]) for name, x in zip(names, case["row"], strict=True)}
    for then, pairs in case["expect"].items():
        got = distribution(repository.search(then, centres, 1), 0)
        assert got == pytest.approx({v: float(Fraction(w)) for v, w in pairs})


# --- Against the naive way --------------------------------------------------------------------------------------------

NUMBERS, WORDS = ["a", "b", "c"], ["s"]
cell = st.sampled_from([None, 0, 1, 2, 3, 0.5])
word = st.sampled_from([None, "x", "y"])
rows = st.lists(st.fixed_dictionaries({**dict.fromkeys(NUMBERS, cell), "s": word}), min_size=1, max_size=12)


@st.composite
def rule_sets(draw):
    rules = []
    for _ in range(draw(st.integers(0, 3))):
        names = draw(st.lists(st.sampled_from(["a", "b", "s"]), min_size=1, max_size=3, unique=True))
        radii = {name: 0.0 if name == "s" else draw(st.sampled_from([0.0, 0.5, 1.0, 5.0])) for name in names}
        rules.append(fl.Rule(radii, "c", 1.0))
    return rules


def coded(repository, asked):
    kinds = {**dict.fromkeys(NUMBERS, pa.float64()), "s": pa.string()}
    columns = repository.history.columns
    return {name: columns[name].encode(pa.array([row[name] for row in asked], kind)) for name, kind in kinds.items()}


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(rows, rule_sets(), rows)
def test_the_same_rules_are_chosen_and_the_same_values_found_as_in_the_naive_way(history, rules, asked):
    if any(all(row[name] is None for row in history) for name in (*NUMBERS, *WORDS)):
        history = [*history, {"a": 0, "b": 0, "c": 0, "s": "x"}]
    query = fl.Query(attributes={"a": "max", "b": "max", "c": "max"}, id="id", time="t", last=1)
    repository = fl.Repository.fit(pd.DataFrame(history, columns=[*NUMBERS, *WORDS]), query, rules=rules)
    centres = coded(repository, asked)
    found = repository.search("c", centres, len(asked))
    low, high = repository.bounds("c", centres, len(asked))
    for k, row in enumerate(asked):
        chosen, values = naive.impute(history, rules, row, "c")
        lattice = repository.lattices["c"]
        assert (() if found.source[k] == LEVEL_0 else lattice.choices[found.source[k]].rules) == chosen
        part = slice(found.start[k], found.start[k] + found.size[k])
        assert dict(zip(found.value[part], found.often[part], strict=True)) == Counter(values)
        if values:
            assert (low[k], high[k]) == (values[0], values[-1])


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(rows, rule_sets(), rows)
def test_the_lattice_knows_for_which_rows_any_combination_matches(history, rules, asked):
    history = [*history, {"a": 0, "b": 0, "c": 0, "s": "x"}]
    query = fl.Query(attributes={"a": "max", "b": "max", "c": "max"}, id="id", time="t", last=1)
    repository = fl.Repository.fit(pd.DataFrame(history, columns=[*NUMBERS, *WORDS]), query, rules=rules)
    lattice, centres = repository.lattices["c"], coded(repository, asked)
    found, (low, high) = lattice.search(centres, len(asked)), lattice.bounds(centres, len(asked))
    able = [bool(naive.impute(history, rules, row, "c")[0]) for row in asked]
    assert lattice.able(centres, len(asked)).tolist() == (found.size > 0).tolist() == (~np.isnan(low)).tolist() == able
    there = np.flatnonzero(able)
    assert low[there].tolist() == found.value[found.start[there]].tolist()
    assert high[there].tolist() == found.value[found.start[there] + found.size[there] - 1].tolist()


def test_a_row_that_lacks_a_determinant_matches_nothing_through_the_tree():
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"a": rng.random(4000), "b": rng.random(4000)})
    frame["c"] = frame.a + frame.b
    query = fl.Query(attributes={"c": "max"}, id="id", time="t", last=1)
    repository = fl.Repository.fit(frame, query, rules=["a(0.1), b(0.1) -> c(1)"])
    history = repository.history
    access = TreeAccess.build(history, "c", ("a", "b"))
    given_, centres = {"a": 0.1, "b": 0.1}, {"a": np.array([0.5, np.nan, 0.5]), "b": np.array([0.5, 0.5, np.nan])}
    table = SortedAccess.build(history, "c", None, "a", ("b",))
    for one, other in zip(access.find(given_, centres), table.find(given_, centres), strict=True):
        assert one.tolist() == other.tolist()
    assert access.count(given_, centres).tolist() == table.count(given_, centres).tolist()
    assert np.array_equal(access.bounds(given_, centres), table.bounds(given_, centres), equal_nan=True)
    [choice] = repository.lattices["c"].choices
    low, _ = replace(repository.lattices["c"], choices=(replace(choice, access=access),)).bounds(centres, 3)
    assert np.isnan(low).tolist() == [False, True, True]


def test_a_saved_repository_gives_the_same_answers_from_mapped_files(tmp_path):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"a": rng.random(3000), "b": rng.random(3000), "s": rng.choice(["x", "y"], 3000)})
    frame["c"] = frame.a + frame.b
    query = fl.Query(attributes={"a": "max", "c": "max"}, id="id", time="t", last=1)
    rules = ["a(0.3), b(0.3) -> c(0.6)", "s, a(0.01) -> c(1)"]
    fitted = fl.Repository.fit(frame, query, rules=rules)
    fitted.save(tmp_path / "r")
    fitted.save(tmp_path / "r")  # again: the folder is a repository
    loaded = fl.Repository.load(tmp_path / "r")
    asked = {name: fitted.history.columns[name].values[:50] for name in ("a", "b", "s")}
    for one, other in zip(fitted.search("c", asked, 50), loaded.search("c", asked, 50), strict=True):
        assert np.array_equal(one, other)
    loaded.save(tmp_path / "r")  # over the very files it is mapped from
    assert fl.Repository.load(tmp_path / "r").fingerprint == fitted.fingerprint
    grown = loaded.append(frame[:10], query)
    grown.save(tmp_path / "r")
    assert fl.Repository.load(tmp_path / "r").fingerprint == grown.fingerprint != fitted.fingerprint
    assert loaded.rules == fitted.rules
    assert loaded.fingerprint == fitted.fingerprint
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "y").touch()
    with pytest.raises(fl.errors.HistoryError, match="not empty"):
        fitted.save(tmp_path / "x")
    with pytest.raises(fl.errors.HistoryError, match="no repository in"):
        fl.Repository.load(tmp_path / "nowhere")


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(rows, rows, rule_sets(), rows)
def test_appended_rows_count_as_if_they_had_been_there_from_the_start(first, more, rules, asked):
    first = [*first, {"a": 0, "b": 0, "c": 0, "s": "x"}]
    more = [*more, {"a": 1, "b": 1, "c": 1, "s": "new"}]
    query = fl.Query(attributes={"a": "max", "b": "max", "c": "max"}, id="id", time="t", last=1)
    frame = lambda part: pd.DataFrame(part, columns=[*NUMBERS, *WORDS])  # noqa: E731
    grown = fl.Repository.fit(frame(first), query, rules=rules).append(frame(more), query)
    centres = coded(grown, asked)
    found = grown.search("c", centres, len(asked))
    for k, row in enumerate(asked):
        choice = found.source[k]
        given_now = {} if choice == LEVEL_0 else grown.lattices["c"].choices[choice].given
        values = [r["c"] for r in naive.closeness([*first, *more], given_now, row, "c")]
        part = slice(found.start[k], found.start[k] + found.size[k])
        assert dict(zip(found.value[part], found.often[part], strict=True)) == Counter(values)


def test_verify_names_the_pair_of_the_papers_table_5_that_breaks_its_second_rule():
    names = VECTORS["columns"]
    query = fl.Query(attributes=dict.fromkeys(names, "max"), id="id", time="t", last=1)
    history = [dict(zip(names, row, strict=True)) for row in VECTORS["rows"]]
    [violation] = fl.verify(VECTORS["rules"], history, query)
    assert str(violation.rule) == "B(1), C(1) -> D(1)"
    assert violation.pairs == ((0, 1),)
    assert "broken by 2 rows, for instance 0 and 1" in str(violation)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(rows, rule_sets())
def test_verify_finds_exactly_the_rules_that_some_pair_breaks(history, rules):
    history = [*history, {"a": 0, "b": 0, "c": 0, "s": "x"}]
    query = fl.Query(attributes={"a": "max", "b": "max", "c": "max"}, id="id", time="t", last=1)
    broken = {id(each.rule) for each in fl.verify(rules, pd.DataFrame(history), query)}
    for rule in rules:
        held = [row for row in history if row["c"] is not None and all(row[a] is not None for a in rule.given)]
        worst = max((abs(p["c"] - q["c"]) for p in held for q in naive.closeness(held, rule.given, p, "c")), default=0)
        assert (id(rule) in broken) == (worst > rule.within)


@pytest.mark.parametrize(
    ("text", "what", "at"),
    [
        ("a(1) b(2)", "no '->'", 9),
        ("a(x) -> b(1)", "'x' is neither a number nor a duration", 2),
        ("a(1), , c -> b(1)", "expected a name", 6),
        ("a(1), a(2) -> b(1)", "given twice", 5),
        ("a(1 -> b(1)", "expected a name", 0),
    ],
)
def test_a_rule_that_cannot_be_read_shows_where(text, what, at):
    with pytest.raises(fl.errors.RuleError) as error:
        parse(text)
    first, second, third = str(error.value).split("\n")
    assert what in first
    assert second.strip() == text.strip()
    assert third.index("^") == at + 2


def test_rules_survive_their_text_form_and_yaml(tmp_path):
    rules = [fl.Rule({"site": 0.0, "v": 0.25}, "t", 0.5), fl.Rule({"v": 1.0}, "t", 2.0)]
    path = tmp_path / "rules.yaml"
    path.write_text(f"- '{rules[0]}'\n- {{given: {{v: 1}}, then: t, within: 2}}\n")
    assert load(path) == rules


def test_a_rule_that_does_not_fit_the_history_is_an_error():
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", last=1)
    history = [{"a": 1.0, "site": "x"}]
    for rule, text in [
        ("b(1) -> a(1)", "speaks of 'b'"),
        ("site(1) -> a(1)", "holds words"),
        ("a(1) -> site", "only numbers"),
    ]:
        with pytest.raises(fl.errors.RuleError, match=text):
            fl.Repository.fit(history, query, rules=[rule])
    with pytest.raises(fl.errors.HistoryError, match="no attribute 'a'"):
        fl.Repository.fit([{"x": 1.0}], query)


@pytest.mark.parametrize("method", ["held-out", "paper"])
def test_discovery_finds_what_explains_an_attribute(method):
    rng = np.random.default_rng(4)
    x = rng.random(4000) * 10
    frame = pd.DataFrame(
        {"x": x, "noise": rng.random(4000), "y": 3 * x + rng.normal(0, 0.01, 4000), "constant": 1.0, "none": np.nan}
    )
    query = fl.Query(attributes={"y": "max", "noise": "max"}, id="id", time="t", last=1)
    rules = fl.Repository.fit(frame, query, method=method).rules
    assert [set(rule.given) for rule in rules if rule.then == "y"] == [{"x"}]
    if method == "held-out":
        assert not [rule for rule in rules if rule.then == "noise"]


PAIR = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", last=1, limits={"b": (0, 9)})


def test_tiny_histories_fit():
    monitor = fl.Monitor(PAIR, fl.Repository.fit([{"a": 1.0, "b": 2.0}], PAIR))
    monitor.advance(1, [{"id": 1, "t": 1, "a": None, "b": 5.0}, {"id": 2, "t": 1, "a": 5.0, "b": 1.0}])
    assert monitor.stats()["rejected"] == 0


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"a": [], "b": []}, "the history has no rows, so nothing can be learnt from it"),
        (
            {"a": [1.0, 2.0], "b": [None, None]},
            "none of the 2 rows of the history has a number in 'b': all are missing",
        ),
        ({"a": [1.0, 2.0], "b": [99.0, None]}, "all are missing or outside its limits, .0.0, 9.0."),
        ({"a": ["x", "y"], "b": [1.0, 2.0]}, "in 'a': 2 are texts, such as 'x'. What it may be cannot be learnt: take"),
        ({"a": ["x", None], "b": [1.0, 2.0]}, "in 'a': 1 are texts, such as 'x', the others are missing"),
    ],
)
def test_a_history_that_teaches_nothing_of_an_attribute_is_refused_by_its_name(columns, reason):
    texts = {name: any(isinstance(each, str) for each in cells) for name, cells in columns.items()}
    table = pa.table({n: pa.array(cells, pa.string() if texts[n] else pa.float64()) for n, cells in columns.items()})
    with pytest.raises(fl.errors.HistoryError, match=reason):
        fl.Repository.fit(table, PAIR)


def test_texts_among_the_numbers_of_a_history_are_counted_with_an_example():
    texts = pa.table({"a": ["1", " 2.5 ", "broken", None, "ERR"], "b": [1.0, 2.0, 3.0, 4.0, 5.0]})
    with pytest.warns(fl.HistoryWarning, match="2 of 5 cells of 'a' in the history are texts, such as 'broken'"):
        fitted = fl.Repository.fit(texts, PAIR)
    numbers = texts.set_column(0, "a", pa.array([1.0, 2.5, None, None, None]))
    assert fitted.fingerprint == fl.Repository.fit(numbers, PAIR).fingerprint


def test_a_repository_of_another_query_or_another_snapshot_is_refused():
    query = fl.Query(attributes={"a": "max"}, id="id", time="t", last=1)
    one, two = (fl.Repository.fit([{"a": v}], query, rules=[]) for v in (1.0, 2.0))
    with pytest.raises(fl.errors.HistoryError, match="fitted for another query"):
        fl.Monitor(fl.Query(attributes={"b": "max"}, id="id", time="t", last=1), one)
    saved = fl.Monitor(query, one).snapshot()
    fl.Monitor.restore(query, saved, one)
    for wrong in (two, None):
        with pytest.raises(fl.errors.SnapshotError, match="repository"):
            fl.Monitor.restore(query, saved, wrong)


def test_the_static_skyline_imputes_from_the_table_itself():
    query = fl.Query(attributes={"x": "max", "y": "max"}, id="s", time="t", lifetime=1, alpha=0.1)
    table = [{"s": "a", "x": 1.0, "y": 3.0}, {"s": "b", "x": 3.0, "y": 1.0}, {"s": "b", "x": 2.0, "y": None}]
    answer = fl.skyline(table, query).to_pylist()
    assert [row["s"] for row in answer] == ["a", "b", "b"]
    assert [row["probability"] for row in answer] == pytest.approx([0.5, 1.0, 0.5])


def test_repositories_are_equal_if_they_were_fitted_alike_to_the_same_rows(tmp_path):
    query = fl.Query(attributes={"a": "max", "b": "max"}, id="id", time="t", last=10)
    rows = [{"a": float(k), "b": 2.0 * k} for k in range(20)]
    one, same = fl.Repository.fit(rows, query), fl.Repository.fit(rows, query)
    other = fl.Repository.fit(rows[:-1], query)
    one.save(tmp_path / "repo")
    assert one == same == fl.Repository.load(tmp_path / "repo")
    assert one != other
    assert one != "a repository"
    assert len({one, same, other}) == 2


@pytest.mark.parametrize("none", [None, float("nan")])
def test_rows_without_a_time_count_as_the_oldest(none):
    query = fl.Query(attributes={"x": "max"}, id="id", time="t", lifetime=10)
    table = pa.table({"id": list("abcdef"), "t": pa.array([3.0, none, 1.0, none, 2.0, 4.0]), "x": np.arange(6.0)})
    newest = read_history(table, query).in_order(query, 3)
    assert newest.columns["t"].values.tolist() == [2.0, 3.0, 4.0]
    assert in_order(table, query)["x"].to_pylist()[2:] == [2.0, 4.0, 0.0, 5.0]
