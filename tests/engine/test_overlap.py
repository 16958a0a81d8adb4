"""Is the answer right where hundreds of rows can beat each other, and bounded where that is too much to sum?"""

import numpy as np
import pytest

import fogline as fl

VALUES = 4


def drawn(n, d=2, values=VALUES, seed=3):
    """(n, d, values) lists over the whole range, and their weights."""
    rng = np.random.default_rng(seed)
    weight = rng.random((n, d, values))
    return rng.random((n, d, values)), weight / weight.sum(axis=2, keepdims=True)


def rows_of(value, weight, t=0):
    """The same, as rows."""
    for i in range(len(value)):
        cells = [list(zip(value[i, j].tolist(), weight[i, j].tolist(), strict=True)) for j in range(value.shape[1])]
        yield {"id": i, "t": t} | {f"a{j}": cell for j, cell in enumerate(cells)}


def by_definition(value, weight, o, rivals):
    """The probability of row o beside some others, place by place; no two values are the same."""
    shape = []
    for j in range(value.shape[1]):
        as_good = (value[rivals, j, :, None] >= value[o, j]) * weight[rivals, j, :, None]
        shape.append(as_good.sum(axis=1))  # (rivals, values of o)
    chance = shape[0]
    for each in shape[1:]:
        chance = chance[..., None] * each.reshape(len(each), *([1] * (chance.ndim - 1)), -1)
    left = np.clip(1.0 - chance, 0.0, 1.0).prod(axis=0)
    for j in range(value.shape[1] - 1, -1, -1):
        left = left @ weight[o, j]
    return float(left)


def all_by_definition(value, weight):
    every = np.arange(len(value))
    return np.array([by_definition(value, weight, o, every[every != o]) for o in every])


@pytest.fixture(scope="module")
def crowd():
    """Rows that all overlap, what is true of them, and an alpha that some are above, far from any of them."""
    value, weight = drawn(600)
    truth = all_by_definition(value, weight)
    likeliest = np.sort(truth)[::-1][8:30]
    k = int(np.argmax(likeliest[:-1] - likeliest[1:]))
    return value, weight, truth, float(likeliest[k : k + 2].mean())


def agrees(monitor, truth, alpha):
    found = {row["id"]: row["probability"] for row in monitor.answer().to_pylist()}
    assert found.keys() == set(np.flatnonzero(truth > alpha).tolist())
    for name, probability in found.items():
        assert probability == pytest.approx(truth[name], abs=1e-9)
    return found


@pytest.mark.parametrize("latest", [False, True])
@pytest.mark.parametrize("step", [600, 40])
def test_a_few_of_hundreds_of_rivals_keep_a_row_out_and_the_answer_is_that_of_all_of_them(crowd, latest, step):
    value, weight, truth, alpha = crowd
    window = {"latest": True} if latest else {"lifetime": 9}
    query = fl.Query(attributes={"a0": "max", "a1": "max"}, id="id", time="t", alpha=alpha, **window)
    monitor, rows = fl.Monitor(query), list(rows_of(value, weight))
    for first in range(0, len(rows), step):
        monitor.advance(0, rows[first : first + step])
    assert agrees(monitor, truth, alpha)


def test_a_row_is_looked_at_again_when_the_few_that_kept_it_out_expire(crowd):
    value, weight, truth, alpha = crowd
    query = fl.Query(attributes={"a0": "max", "a1": "max"}, id="id", time="t", expires="e", alpha=alpha)
    monitor = fl.Monitor(query)
    more, more_weight = drawn(200, seed=4)
    rows = [row | {"e": 9} for row in rows_of(value, weight)]
    rows += [row | {"id": 1000 + row["id"], "e": 5} for row in rows_of(more, more_weight)]
    monitor.advance(0, rows)
    monitor.advance(5)
    assert agrees(monitor, truth, alpha)


def test_a_row_that_is_too_much_to_sum_is_bracketed_whatever_the_order_of_the_rows():
    value, weight = drawn(1, 3, 99)
    rng = np.random.default_rng(5)
    n = 300  # different rivals, times some 400,000 places that differ to them: more than is summed
    rivals = np.concatenate((np.zeros((n, 3, 1)), rng.random((n, 3, 1))), axis=2)
    share = np.full((n, 3, 2), 0.4)
    share[..., 0] = 0.6
    query = fl.Query(attributes={f"a{j}": "max" for j in range(3)}, id="id", time="t", lifetime=9, alpha=0.05)
    rows = [row | {"id": 1 + row["id"]} for row in rows_of(rivals, share)]
    found = []
    for order in (rows, rows[::-1]):
        monitor = fl.Monitor(query)
        monitor.advance(0, [*order, *rows_of(value, weight)])
        found += [row for row in monitor.answer().to_pylist() if row["id"] == 0]
    assert found[0] == found[1]
    truth = 0.0
    for k in range(99):  # one value of the first cell at a time
        chance = 0.4 * (rivals[:, 0, 1] >= value[0, 0, k])
        for j in (1, 2):
            chance = chance[..., None] * (0.4 * (rivals[:, j, 1, None] >= value[0, j])).reshape(
                n, *([1] * (chance.ndim - 1)), 99
            )
        truth += weight[0, 0, k] * float((1.0 - chance).prod(axis=0) @ weight[0, 2] @ weight[0, 1])
    assert found[0]["probability_error"] > 0
    assert abs(found[0]["probability"] - truth) <= found[0]["probability_error"] + 1e-9
    assert found[0]["probability_error"] <= 0.0005
