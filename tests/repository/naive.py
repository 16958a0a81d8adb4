"""What does history know about a missing value? The definition, row by row."""

from fractions import Fraction
from itertools import combinations
from math import floor


def closeness(rows, given, centre, then):
    """The rows that hold `then` and are close to the centre in all that is given."""
    return [
        row
        for row in rows
        if row[then] is not None and all(row[a] is not None and near(row[a], centre[a], e) for a, e in given.items())
    ]


def near(a, b, radius):
    return a == b if isinstance(a, str | bool) else abs(float(a) - float(b)) <= radius


def united(rules):
    given: dict[str, float] = {}
    for rule in rules:
        for name, radius in rule.given.items():
            given[name] = min(radius, given.get(name, radius))
    return given


def expected(rows, given, then):
    held = [row for row in rows if all(row[a] is not None for a in given)]
    return sum(len(closeness(rows, given, row, then)) for row in held) / len(held) if held else 0.0


def impute(rows, rules, row, then):
    """(the rules chosen, sorted values) for one missing cell; no rules: level 0."""
    own = [rule for rule in rules if rule.then == then]
    usable = [k for k, rule in enumerate(own) if all(row.get(a) is not None for a in rule.given)]
    for size in range(len(usable), 0, -1):
        level = [(expected(rows, united([own[k] for k in c]), then), c) for c in combinations(usable, size)]
        for _, chosen in sorted(level):
            found = closeness(rows, united([own[k] for k in chosen]), row, then)
            if found:
                return chosen, sorted(r[then] for r in found)
    return (), sorted(r[then] for r in rows if r[then] is not None)


def reduced(cell, most=64):
    """A list of (value, weight) in at most `most` values: the ends as they are, the sums between rounded."""
    if most is None or len(cell) <= most:
        return cell
    first, *inner, last = cell
    total, parts, below, out = sum(w for _, w in inner), most - 2, Fraction(0), [first]
    for value, weight in inner:
        steps = _rounded(below + weight, total, parts) - _rounded(below, total, parts)
        below += weight
        if steps:
            out.append((value, steps * total / parts))
    return [*out, last]


def _rounded(part, total, parts):
    """To the nearest of so many equal parts, halves up."""
    return floor(part * parts / total + Fraction(1, 2))
