"""Does a cloud beat another as likely as the definition gives?"""

from hypothesis import given, settings

from fogline.kernels.dominance import chance_to_dominate, dominates
from tests import oracle
from tests.kernels.common import packed, pairs_of_rows, truth


@settings(deadline=None, max_examples=400)
@given(pairs_of_rows)
def test_dominance_factorises(rows):
    uncertain, true = packed(rows), truth(rows)
    for i in range(len(rows)):
        for k in range(len(rows)):
            if i != k:
                assert abs(chance_to_dominate(uncertain, i, k) - float(oracle.chance(true[i], true[k]))) < 1e-12


@settings(deadline=None, max_examples=300)
@given(pairs_of_rows)
def test_a_cloud_surely_beats_another_if_and_only_if_its_worst_corner_beats_the_best_one(rows):
    uncertain, true = packed(rows), truth(rows)
    for i in range(len(rows)):
        for k in range(len(rows)):
            if i != k:
                assert dominates(uncertain.lo, i, uncertain.hi, k) == (oracle.chance(true[i], true[k]) == 1)
