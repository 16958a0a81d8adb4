"""Does the repository impute as the definition says?"""

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fogline as fl
from fogline.repository.repository import LEVEL_0
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
    if all(row["s"] is None for row in history):
        history = [*history, {"a": 0, "b": 0, "c": 0, "s": "x"}]
    query = fl.Query(attributes={"a": "max", "b": "max", "c": "max"}, id="id", time="t", last=1)
    repository = fl.Repository.fit(pd.DataFrame(history, columns=[*NUMBERS, *WORDS]), query, rules=rules)
    centres = coded(repository, asked)
    found = repository.search("c", centres, len(asked))
    low, high = repository.bounds("c", centres, len(asked))
    for k, row in enumerate(asked):
        chosen, values = naive.impute(history, rules, row, "c")
        lattice = repository.lattices["c"]
        assert (() if found.choice[k] == LEVEL_0 else lattice.choices[found.choice[k]].rules) == chosen
        part = slice(found.start[k], found.start[k] + found.size[k])
        assert dict(zip(found.value[part], found.often[part], strict=True)) == Counter(values)
        if values:
            assert (low[k], high[k]) == (values[0], values[-1])


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
    assert loaded.rules == fitted.rules
    assert loaded.fingerprint == fitted.fingerprint
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "y").touch()
    with pytest.raises(fl.HistoryError, match="not empty"):
        fitted.save(tmp_path / "x")
    with pytest.raises(fl.HistoryError, match="no repository in"):
        fl.Repository.load(tmp_path / "nowhere")
