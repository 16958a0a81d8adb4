"""Rules (differential dependencies): how they are written, read, checked and combined.

A rule states that rows close in every `given` attribute are close in `then`. As text:

    voltage(0.01), light(5) -> temperature(0.5)
    site, voltage(0.01) -> temperature(0.5)        # site must be equal
    time(10 min), sensor -> temperature(0.2)       # what the same sensor has read in the last ten minutes
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from fogline.documents import read_document
from fogline.errors import QueryError, RuleError, did_you_mean
from fogline.query import Rule, duration
from fogline.repository.history import History
from fogline.show import quoted

_TERM = re.compile(r"([^\s(),>\-][^(),>]*)(?:\(([^()]*)\))?")  # without spaces around it: they would be tried again
MOST = 8  # rules per dependent attribute: their combinations number 2^8 - 1


def parse(text: str) -> Rule:
    """A rule from its text form; an error shows where reading stopped.

    >>> print(parse("voltage(0.01), light(5) -> temperature(0.5)"))
    voltage(0.01), light(5) -> temperature(0.5)
    """
    arrow = text.find("->")
    if arrow < 0:
        raise _mistake(text, len(text), "a rule reads 'given(distance), … -> then(distance)'; here is no '->'")
    given: dict[str, float] = {}
    at = 0
    for part in text[:arrow].split(","):
        name, radius = _term(text, part, at)
        if name in given:
            raise _mistake(text, at, f"{name!r} is given twice")
        given[name] = radius
        at += len(part) + 1
    then, within = _term(text, text[arrow + 2 :], arrow + 2)
    return Rule(given, then, within)


def _term(text: str, part: str, at: int) -> tuple[str, float]:
    found = _TERM.fullmatch(part.strip())
    if found is None:
        raise _mistake(
            text, at + len(part) - len(part.lstrip()), "expected a name, or a name with its distance in parentheses"
        )
    name, number = found[1].rstrip(), None if found[2] is None else found[2].strip()
    if number is None:
        return name, 0.0
    try:
        return name, float(number)
    except ValueError:
        pass
    try:
        return name, float(duration(number))
    except QueryError:
        raise _mistake(text, at + part.find("(") + 1, f"{number!r} is neither a number nor a duration") from None


def _mistake(text: str, at: int, what: str) -> RuleError:
    return RuleError(f"{what}:\n  {text}\n  {' ' * at}^")


def as_rules(rules: Iterable[Any]) -> list[Rule]:
    """Rules from rules, texts, or mappings with given, then, within."""
    out = []
    for each in rules:
        if isinstance(each, Rule):
            out.append(each)
        elif isinstance(each, str):
            out.append(parse(each))
        elif isinstance(each, Mapping) and set(each) == {"given", "then", "within"}:
            given = each["given"]
            radii = {str(k): v or 0.0 for k, v in given.items()} if isinstance(given, Mapping) else {}
            out.append(Rule(radii, each["then"], each["within"]))
        else:
            raise RuleError(
                f"{quoted(each)} is no rule; write {{given: {{a: 0.5}}, then: b, within: 2}} or 'a(0.5) -> b(2)'."
            )
    return out


def load(path: str | Path) -> list[Rule]:
    """The rules of a YAML file: a list of texts or mappings."""
    try:
        listed = read_document(path, names=("then",))
    except FileNotFoundError:
        raise RuleError(f"there is no rule file {str(path)!r}.") from None
    except yaml.YAMLError as error:
        raise RuleError(f"{str(path)!r} is not YAML: {error}") from None
    if not isinstance(listed, list):
        raise RuleError(f"{str(path)!r} does not hold a list of rules.")
    return as_rules(listed)


def check_rules(rules: Iterable[Rule], history: History) -> None:
    """An error for a rule about a column that is not there, or with a distance between words."""
    for rule in rules:
        for name in (*rule.given, rule.then):
            if name not in history.columns:
                known = sorted(history.columns)
                raise RuleError(
                    f"the rule '{rule}' speaks of {name!r}; the history has {', '.join(known)}."
                    f"{did_you_mean(name, known)}"
                )
        for name, radius in rule.given.items():
            if radius and history.columns[name].words is not None:
                raise RuleError(
                    f"the rule '{rule}' gives {name!r} a distance, but it holds words: they are equal or not."
                )
        if history.columns[rule.then].words is not None:
            raise RuleError(f"the rule '{rule}' explains {rule.then!r}, which holds words; only numbers are imputed.")


def combine(rules: Sequence[Rule]) -> dict[str, float]:
    """What several rules ask for together: all that is given, the smallest distance where they share an attribute."""
    given: dict[str, float] = {}
    for rule in rules:
        for name, radius in rule.given.items():
            given[name] = min(radius, given.get(name, radius))
    return given


def subsets(count: int) -> list[tuple[int, ...]]:
    """All combinations of `count` rules, the largest first, in rule order."""
    return [chosen for size in range(count, 0, -1) for chosen in combinations(range(count), size)]
