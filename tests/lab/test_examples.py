"""Do the examples of the lab's imputers cover what they are to cover?"""

from __future__ import annotations

import numpy as np
import pytest

from fogline.impute.protocol import ends
from lab.imputers import IMPUTERS
from tests.lab.examples import examples

ALL = list(examples())


def test_every_imputer_is_there_with_and_without_sensors():
    assert {name.partition(",")[0] for name, *_ in ALL} == set(IMPUTERS)
    assert len(ALL) == 2 * len(IMPUTERS)
    assert [made.name for _, made, *_ in ALL] == [*IMPUTERS, *IMPUTERS]


@pytest.mark.parametrize(("made", "query", "rows"), [each[1:] for each in ALL], ids=[each[0] for each in ALL])
def test_every_gap_of_an_example_has_a_distribution_and_nothing_else_has(made, query, rows):
    lacking = rows.missing.sum(axis=1)
    assert {0, 1, 3} == set(lacking.tolist())
    known = made.look(rows)
    assert known.shape == (len(rows.values), made.width)
    for j in range(len(query.names)):
        found = made.distributions(known, j)
        assert np.array_equal(made.able(known, j), rows.missing[:, j])
        assert np.array_equal(found.size > 0, rows.missing[:, j])
        assert np.array_equal(made.bounds(known, j), ends(found), equal_nan=True)
        assert found.source[found.size > 0].max() < len(made.sources(j))
        for s, n in zip(found.start, found.size, strict=True):
            assert (np.diff(found.value[s : s + n]) > 0).all()
            assert np.isfinite(found.value[s : s + n]).all()
            assert (found.often[s : s + n] > 0).all()
