"""Is each pruning counted under the lemma that shows it?"""

import numpy as np

from fogline.kernels.judge import lemma_of
from tests.kernels.common import packed


def test_each_lemma_is_distinguished_from_the_others():
    rows = [[[(5, 1)]], [[(6, 2), (1, 1)]], [[(7, 1), (4, 3)]], [[(3, 1), (8, 1)]], [[(4, 1), (5, 1)]]]
    uncertain, expires = packed(rows), np.zeros(5)

    def of(g, o, least):
        return lemma_of(uncertain, expires, np.array([g]), o, least)

    assert of(1, 0, 0.6) == 0  # beats even the best corner often enough
    assert of(0, 2, 0.7) == 1  # only its worst corner shows it
    assert of(4, 3, 0.4) == 1
    assert of(1, 3, 0.33) == 2  # neither corner does
    assert of(2, 3, 0.9) == 3  # nothing does
