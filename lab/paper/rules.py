"""Which rules does the paper print for its data sets? (Table 7, section 6.1.)

Attributes are scaled to [0, 10]. Every rule asks for 0.001 in its one determinant. A set that stands in for Bid has
Bid's attributes, and so Bid's rules. Whether the rules hold on the data is for the lab's experiment `rules` to say.

Where the paper contradicts itself: rules are "obtained by scanning all complete objects" and then hold on R. On a
sensor with few levels, such as Intel's voltage, a determinant within 0.001 is an equal one, so `voltage → temperature`
with δ = 0 states that all readings at one voltage have one temperature.
"""

from __future__ import annotations

from collections.abc import Mapping

from lab.paper.generator import EPSILON

Printed = tuple[tuple[str, str, float], ...]  # determinant, dependent attribute, δ

_INTEL: Printed = (
    ("voltage", "temperature", 0), ("voltage", "humidity", 0), ("voltage", "light", 0), ("light", "voltage", 9.89),
)  # fmt: skip
_GAS: Printed = (
    ("r4", "r1", 1.77), ("r3", "r2", 2.615), ("r2", "r3", 2.79), ("r5", "r4", 2.39), ("r4", "r5", 2),
    ("r1", "r6", 0.38), ("r3", "r7", 1),
    ("temperature", "r8", 0.06), ("r8", "temperature", 0.07), ("r8", "humidity", 0.43),
)  # fmt: skip
_BID: Printed = (
    ("price_max", "price_sd", 5.73), ("price_max", "price_mean", 4.58), ("price_mean", "price_max", 6.58),
    ("price_max", "price_min", 2.96), ("sd", "mean", 3.5), ("sd", "max", 3.21), ("mean", "min", 2.11),
    ("max", "sd", 2.06),
)  # fmt: skip
_PUMP: Printed = tuple(
    (f"sensor_{given:02}", f"sensor_{then:02}", within)
    for given, then, within in (
        (6, 1, 0), (6, 2, 0), (6, 3, 0), (6, 4, 0), (8, 5, 0), (7, 6, 0.206), (1, 7, 0.73), (7, 8, 0.6), (1, 9, 0.65),
        (8, 10, 0),
    )
)  # fmt: skip
TABLE_7: Mapping[str, Printed] = {"intel": _INTEL, "gas": _GAS, "bid": _BID, "sp500": _BID, "pump": _PUMP}


def printed_rules(name: str) -> tuple[str, ...]:
    """The paper's rules for one of its real sets.

    >>> printed_rules("intel")[-1]
    'light(0.001) -> voltage(9.89)'
    """
    return tuple(f"{given}({EPSILON:g}) -> {then}({within:g})" for given, then, within in TABLE_7[name])
