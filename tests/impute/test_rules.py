"""Is a stream with gaps answered as if every gap had been imputed by the definition first?"""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fogline as fl
from tests import oracle
from tests.contracts import agree, answer_of, members
from tests.repository import naive
from tests.strategies import ALPHAS

NAMES = ["a", "b", "c"]
cell = st.sampled_from([None, 0, 1, 2, 3])
complete = st.fixed_dictionaries({**dict.fromkeys(NAMES, st.sampled_from([0, 1, 2, 3])), "s": st.sampled_from("xy")})
rows = st.fixed_dictionaries(
    {
        **dict.fromkeys(NAMES, cell),
        "s": st.sampled_from(["x", "y", "z", None]),
        "gap": st.integers(0, 2),
        "life": st.integers(0, 9),
    }
)
radius = st.sampled_from([0.0, 1.0])
rules = st.lists(
    st.sampled_from(
        ["a(1) -> b(1)", "a(0) -> c(1)", "b(1) -> a(1)", "s -> b(2)", "s, a(1) -> c(1)", "c(0), b(1) -> a(0)"]
    ),
    unique=True,
    max_size=5,
)


@st.composite
def incomplete_streams(draw):
    t, calls = 0, []
    for name, row in enumerate(draw(st.lists(rows, min_size=1, max_size=12))):
        t += row["gap"]
        calls.append((t, {**{k: row[k] for k in (*NAMES, "s")}, "id": name, "t": t, "e": t + row["life"]}))
    return [(now, [row for at, row in calls if at == now]) for now in sorted({at for at, _ in calls})] + [(t + 20, [])]


def filled(history, rules, row):
    """The row with every gap imputed by the definition."""
    out = dict(row)
    for name in NAMES:
        if row[name] is None:
            _, values = naive.impute(history, rules, row, name)
            out[name] = [(value, 1) for value in values]
    return out


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(complete, min_size=1, max_size=8),
    rules,
    incomplete_streams(),
    st.sampled_from(ALPHAS),
    st.sets(st.integers(0, 6)),
)
def test_lazy_and_eager_imputation_give_the_changes_of_the_definition(history, texts, calls, alpha, resume):
    query = fl.Query(
        attributes={"a": "max", "b": "min", "c": "max"}, id="id", time="t", expires="e", alpha=float(alpha)
    )
    repository = fl.Repository.fit(history, query, rules=texts)
    lazy, eager = fl.Monitor(query, repository), fl.Monitor(query, repository, eager=True)
    truth_calls = [(now, [filled(history, repository.rules, row) for row in rows]) for now, rows in calls]
    ticks = {t.call: t for t in oracle.replay(truth_calls, query.attributes, expires="e")}
    for call, (now, batch) in enumerate(calls):
        changes = lazy.advance(now, batch)
        assert changes.equals(eager.advance(now, batch))
        lazy.check()
        eager.check()
        if call in ticks:
            agree(answer_of(lazy), members(ticks[call].probabilities, alpha))
        if call in resume:
            lazy = fl.Monitor.restore(query, lazy.snapshot(), repository)
        assert lazy.stats()["imputed"] <= lazy.stats()["incomplete"]
        if call % 3 == 1:
            assert set(lazy.tree()) == set(eager.tree())  # looking at it fills in what was left vague
            lazy.check()
