"""By what will the gaps of an attribute be filled, in which order, in words?"""

from __future__ import annotations

from fogline.impute.chain import Chain
from fogline.impute.imputer import Imputer
from fogline.impute.others import Others
from fogline.impute.past import Last, Past, RecentRule
from fogline.impute.rules import Rules
from fogline.impute.whole import Mean, Whole


def in_order(chain: Chain, j: int) -> list[str]:
    """The imputers that can fill gaps of attribute j, as they are asked: the first that is able fills the gap."""
    return [words for each in chain.imputers if (words := _words(each, chain, j))]


def _words(imputer: Imputer, chain: Chain, j: int) -> str:
    """What fills a gap of attribute j; empty: this imputer never does."""
    if isinstance(imputer, Past):
        later = ", revised by its next reading" if chain.hindsight and chain.opens[j] else ""
        return f"the sensor's own past{later}" if imputer.number[j] >= 0 else ""
    if isinstance(imputer, Last):
        return "the sensor's last value"
    if isinstance(imputer, RecentRule):
        return str(imputer.rule) if imputer.rule.then == chain.query.names[j] else ""
    if isinstance(imputer, Others):
        learnt = imputer.learnt[j]
        return "" if learnt is None else f"other attributes ({', '.join(learnt.given)})"
    if isinstance(imputer, Rules):
        return ", ".join(str(rule) for rule in imputer.lattices[j].rules)
    if isinstance(imputer, Mean):
        return "its mean in the history"
    if isinstance(imputer, Whole):
        return "the whole history's distribution"
    return imputer.name
