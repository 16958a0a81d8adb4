"""The tests of Fogline: the slow truth in `oracle`, random input in `strategies`, shared checks in `contracts`."""

import pytest

pytest.register_assert_rewrite("tests.contracts")  # so that a broken promise shows both sides
