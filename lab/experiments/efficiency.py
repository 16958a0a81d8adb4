"""What does a tick cost: on each set beside the rivals, over each knob, and with several gaps per row?

`sets` is the paper's Figure 12: every system on every set; imputation, upkeep and query of a tick, and their sum. The
six rivals are compiled as Fogline is, so that ideas are compared: `skyline` is the candidate lists of Ding et al.,
`skyline_tree` the paper's own tree, corrected, and both are fed with rows that are imputed already. `DD` finds samples
in Fogline's index, `DD-scan` looks at all of R. `skyline_forgetting` adds Fogline's rule for forgetting, `live` is its
live set.
`mean+moocore` is what a user with a good Pareto library would write; its answers are not the same. Systems are raced
without what lies around them (see `race`). Beside them stands what a user gets: a whole tick of a `Monitor`, with
reading rows, refusing duplicates, scoring hidden values and writing changes.

The knobs are the paper's Figures 13 to 18: one is turned, the rest stays at its default, on the three synthetic sets.
As in the paper, maintenance is with imputation, and query is working out the answer; here also their sum.

`m` is the paper's Figure 19. Each of the paper's synthetic rules explains an attribute by one other. With two gaps in a
row that one may be missing as well. Then nothing is left but the distribution of the attribute over the whole of R:
120,000 values, which no box can bound. That is another task, and a far slower one, so it is shown apart:

- `printed`: the paper's rules, in the paper's window. A trial ends after MOST_SECONDS; if the window is not full by
  then, its ticks are those of the window as far as it came, and the table states how far.
- `all`: every attribute is explained by every other, at the defaults; any one known value is enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from time import perf_counter

import pandas as pd

from fogline.monitor import Monitor
from lab.case import KINDS
from lab.experiment import Experiment, Knobs, Plot, Reading, Scalar, Scope, by_claims, finding, worst
from lab.experiments.common import (
    FEWEST,
    STANDS,
    between,
    case_of,
    kind_of,
    listed,
    milliseconds,
    pace,
    sets,
    whole_ticks,
)
from lab.race import FOGLINE, RIVALS, repository_of, system

# ------------------------------------------------------------------------------------------------------------ every set


SYSTEMS = (
    FOGLINE, *RIVALS, "DD-scan+skyline", "DD-scan+skyline_tree", "DD+skyline_forgetting", "DD+live", "mean+moocore",
)  # fmt: skip
CLAIMED = 100.0  # two orders of magnitude


def sets_trials(scope: Scope) -> list[Knobs]:
    """Three seeds where a set can be had anew, one of a real set."""
    return [{"set": name, "seed": seed} for name in sets(scope) for seed in _seeds(name, scope)]


def _seeds(name: str, scope: Scope) -> tuple[int, ...]:
    return (1, 2, 3) if name in KINDS and not scope.quick else (1,)


def sets_measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    name = str(knobs["set"])
    case = case_of(name, scope, seed=knobs["seed"])
    rows: list[dict[str, Scalar]] = []
    for each in SYSTEMS:
        runner = system(each, case)
        row: dict[str, Scalar] = {"system": each, "kind": kind_of(name), "window": case.settings.window}
        row |= pace(case, runner)
        sizes = runner.sizes()
        row["kept"] = sizes["live"] if each == FOGLINE else sizes["kept"]
        rows.append(row)
    rows[0]["monitor_ms"] = whole_ticks(case, Monitor(case.query, repository_of(FOGLINE, case)))
    fogline = float(rows[0]["total_ms"] or 0)
    return [row | {"ratio": float(row["total_ms"] or 0) / fogline} for row in rows]


def sets_read(frame: pd.DataFrame) -> Reading:
    ratio = frame.pivot_table(index="set", columns="system", values="ratio", sort=False)
    parts = [
        f"{name} {_times(line, 'DD+skyline')} and {_times(line, 'DD+skyline_tree')}" for name, line in ratio.iterrows()
    ]
    first = ratio["DD+skyline"] >= CLAIMED
    second = ratio["DD+skyline_tree"] >= CLAIMED
    held = [str(name) for name in ratio.index[first]]
    wide = [
        f"{between(ratio[name], '{:.3g}')} times Fogline's time with {name}"
        for name in ("DD+skyline", "DD+skyline_tree")
    ]
    text = (
        f"A tick takes {listed(wide)}. Set by set, both as a multiple of Fogline's: {'; '.join(parts)}. Two orders of "
        f"magnitude against DD+skyline hold on {listed(held) if held else 'no set'}; against DD+skyline_tree on "
        f"{listed(ratio.index[second]) if second.any() else 'no set'}."
    )
    others = [f"{name} {between(ratio[name], '{:.2g}')}×" for name in RIVALS if not name.startswith("DD")]
    text += f" The other rivals: {listed(others)}.{_whole(frame)}{STANDS}"
    mul, con = (ratio[[f"{one}+skyline", f"{one}+skyline_tree"]] for one in ("mul", "con"))
    return by_claims(
        text,
        [
            finding(ORDERS, bool(first.all() and second.all()), _why(ratio), by_design=True),
            finding(BEFORE_MUL, bool((mul > 1).all(axis=None)), f"from {mul.to_numpy().min():.2g}× our time on"),
            finding(
                AFTER_CON,
                bool((con < 1).all(axis=None)),
                "rows that are surely dominated are never imputed, and con imputes all",
                by_design=True,
            ),
        ],
    )


ORDERS = "Two orders of magnitude faster than DD+skyline and DD+skyline_tree"
BEFORE_MUL = "Faster than mul+skyline and mul+skyline_tree"
AFTER_CON = "Slightly slower than con+skyline and con+skyline_tree"


def _why(ratio: pd.DataFrame) -> str:
    """What the factor is made of: each rival is better in one thing."""
    parts = [
        f"{what} {between(ratio[name], '{:.3g}')}×"
        for name, what in (
            ("DD-scan+skyline_tree", "with R scanned for every gap"),
            ("DD+live", "with our live set in place of the tree, and everything imputed,"),
        )
        if name in ratio
    ]
    return f"rivals are compiled as we are, and find samples in our index; {listed(parts)}"


def _whole(frame: pd.DataFrame) -> str:
    """What a user's tick takes; nothing where it was not measured."""
    rows = frame[frame["system"] == FOGLINE]
    if "monitor_ms" not in rows or rows["monitor_ms"].isna().all():
        return ""
    times = (rows["monitor_ms"] / rows["total_ms"]).dropna()
    return f" A monitor's whole tick, read and written, takes {between(times)} times as long as what is raced of it."


def _times(line: pd.Series, name: str) -> str:
    return f"{line[name]:,.3g}×" if name in line and pd.notna(line[name]) else "not measured"


SETS = Experiment(
    name="sets",
    title="Efficiency over data sets",
    figure="Figure 12",
    question="How long does a tick take, on each set, beside the six rivals?",
    claim="Two orders of magnitude faster than DD+skyline and DD+skyline_tree, faster than mul+skyline and "
    "mul+skyline_tree, slightly slower than con+skyline and con+skyline_tree.",
    trials=sets_trials,
    measure=sets_measure,
    plots=(
        Plot("Time per tick", "set", "total_ms", "system", kind="bar", log_y=True, y_label="ms"),
        Plot("As a multiple of Fogline's time", "set", "ratio", "system", kind="table", spread=True),
        Plot("Imputation", "set", "imputation_ms", "system", kind="table"),
        Plot("Upkeep", "set", "upkeep_ms", "system", kind="table"),
        Plot("Query", "set", "query_ms", "system", kind="table"),
        Plot("Rows kept", "set", "kept", "system", kind="table"),
    ),
    read=sets_read,
    claims=(ORDERS, BEFORE_MUL, AFTER_CON),
)


# ----------------------------------------------------------------------------------------------------------- every knob


FLAT = 1.25  # less of a change than this may be noise: the same point, measured again, varies as much
PARTS = ("maintenance", "query")


@dataclass(frozen=True)
class KnobSweep:
    """A knob, its values in the paper, and what happens in the paper as it goes up: 1 rises, -1 falls."""

    knob: str
    sign: str
    values: tuple[float, ...]
    figure: str
    claim: str
    maintenance: int = 1
    query: int = 1
    most: tuple[float, float] = (0.0, 0.0)
    """The paper's bounds of maintenance and query, in ms."""

    @property
    def stated(self) -> str:
        """The claim that is counted; bounds in ms are those of another machine."""
        ways = [f"{part} {'rises' if getattr(self, part) > 0 else 'falls'}" for part in PARTS]
        more = ", and query takes least on Correlated and most on Anti-correlated" if self.knob == "xi" else ""
        return f"As {self.sign} grows, {' and '.join(ways)}{more}"


SWEEPS = (
    KnobSweep("alpha", "α", (0.1, 0.2, 0.5, 0.8, 0.9), "Figure 13",
         "Maintenance rises linearly with α, to less than 222 ms; query falls and stays between 25.1 and 27.5 ms.",
         query=-1, most=(222, 27.5)),
    KnobSweep("d", "d", (2, 3, 4, 5, 6, 10), "Figure 14",
         "Both rise with d; maintenance stays below 137 ms, query below 13 ms.", most=(137, 13)),
    KnobSweep("xi", "ξ", (0.1, 0.2, 0.3, 0.4, 0.5), "Figure 15",
         "Both rise with ξ, maintenance linearly; below 100 ms and 9.5 ms. Query is least on Correlated and greatest "
         "on Anti-correlated.", most=(100, 9.5)),
    KnobSweep("theta", "θ", (10, 20, 30, 40, 50, 100), "Figure 16",
         "Both rise smoothly with θ; maintenance 201–221 ms, query 25.1–27.5 ms.", most=(221, 27.5)),
    KnobSweep("window", "|W|", (5_000, 10_000, 20_000, 40_000, 50_000, 80_000), "Figure 17",
         "Both rise with |W|, to less than 206.7 ms and 19.32 ms at 80K.", most=(206.7, 19.32)),
    KnobSweep("history", "|R|", (40_000, 80_000, 120_000, 160_000, 200_000), "Figure 18",
         "Both rise smoothly with |R|, to around 70.4 ms and 9.31 ms at 200K.", most=(70.4, 9.31)),
)  # fmt: skip


WHY: dict[str | tuple[str, str], str] = {  # where nothing rises or falls that we can see
    "maintenance": "a tick takes so little that what does not depend on the knob hides the rest",
    "query": "members are updated by what came and went, and not summed anew",
    ("alpha", "maintenance"): "which rows are forgotten follows from their boxes, and not from α",
    ("history", "maintenance"): "values come from a sorted column, and most rows are never imputed",
    ("history", "query"): "values that no dominator distinguishes are merged",
}


def sweep_trials(sweep: KnobSweep, scope: Scope) -> list[Knobs]:
    scale = 10 if scope.quick and sweep.knob == "window" else 1
    values = (sweep.values[0], sweep.values[-1]) if scope.quick else sweep.values
    seeds = (1,) if scope.quick else (1, 2, 3, 4, 5)
    return [
        {"set": kind, sweep.knob: value if isinstance(value, float) else value // scale, "seed": seed}
        for kind in KINDS
        for value in values
        for seed in seeds
    ]


def sweep_measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    turned = {name: value for name, value in knobs.items() if name != "set"}
    case = case_of(str(knobs["set"]), scope, **turned)
    runner = system(FOGLINE, case)
    took = pace(case, runner)
    sizes = runner.sizes()
    return [took | {"system": FOGLINE, "live": sizes["live"], "answer": sizes["answer"]}]


def sweep_read(sweep: KnobSweep, frame: pd.DataFrame) -> Reading:
    ends = frame[sweep.knob].min(), frame[sweep.knob].max()
    found, parts = [], []
    for part in PARTS:
        each_seed = frame.groupby(["set", "seed", sweep.knob])[f"{part}_ms"].mean().unstack(sweep.knob)
        change = (each_seed[ends[1]] / each_seed[ends[0]]).dropna().groupby("set", sort=False)
        found += [_direction(each) * getattr(sweep, part) for _, each in change]
        shown = listed(f"{between(each, '{:.2f}')}× ({name})" for name, each in change)
        parts.append(f"{part} changes by {shown}")
    slowest = [float(frame[f"{part}_ms"].max()) for part in PARTS]
    below = [f"{ms:.2g} ms (the paper's bound is {most:g})" for ms, most in zip(slowest, sweep.most, strict=True)]
    text = (
        f"Of {len(found)} cases {found.count(1)} go the paper's way, {found.count(0)} are flat as far as the noise "
        f"lets us see (less than {FLAT:g}×, or the seeds disagree), {found.count(-1)} go the other way; at the "
        f"slowest, maintenance takes {below[0]} and query {below[1]}. From {sweep.sign} = {ends[0]:g} to {ends[1]:g}, "
        f"over the seeds, {parts[0]}, and {parts[1]}."
    )
    parts_found = []
    for part, ways in zip(PARTS, (found[: len(found) // 2], found[len(found) // 2 :]), strict=True):
        against = -1 in ways
        reason = (
            f"{part} goes the other way on some set"
            if against
            else f"{part} is flat: {WHY.get((sweep.knob, part), WHY[part])}"
        )
        parts_found.append(finding(part, {*ways} == {1}, reason, by_design=not against))
    if sweep.knob == "xi" and {*KINDS} <= {*frame["set"]}:
        query = frame.groupby("set")["query_ms"].mean()
        order = query.idxmin() == "correlated" and query.idxmax() == "anti"
        parts_found.append(finding("order", order, f"query takes most on {query.idxmax()}, least on {query.idxmin()}"))
    return by_claims(text, [worst(parts_found, sweep.stated)])


def _direction(changes: pd.Series) -> int:
    """1 or -1 only if all seeds agree."""
    return 1 if (changes > FLAT).all() else -1 if (changes < 1 / FLAT).all() else 0


def swept(sweep: KnobSweep) -> Experiment:
    """The experiment that turns this knob."""
    log = sweep.values[-1] > 1_000
    return Experiment(
        name=sweep.knob,
        title=f"Efficiency over {sweep.sign}",
        figure=sweep.figure,
        question=f"What does a tick take as {sweep.sign} grows?",
        claim=sweep.claim,
        trials=partial(sweep_trials, sweep),
        measure=sweep_measure,
        plots=tuple(
            Plot(title, sweep.knob, f"{part}_ms", "set", log_x=log, spread=True, x_label=sweep.sign, y_label="ms")
            for title, part in (("Maintenance", "maintenance"), ("Query", "query"), ("Together", "total"))
        ),
        read=partial(sweep_read, sweep),
        claims=(sweep.stated,),
    )


KNOBS = tuple(swept(sweep) for sweep in SWEEPS)


# ------------------------------------------------------------------------------------------------- several gaps per row


GAPS = (1, 2, 3)
MOST_SECONDS = 60.0  # of filling a window


def m_trials(scope: Scope) -> list[Knobs]:
    return [{"set": kind, "rules": rules, "m": m} for kind in KINDS for rules in ("printed", "all") for m in GAPS]


def m_measure(knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    case = case_of(str(knobs["set"]), scope, m=knobs["m"], ticks=20)
    if knobs["rules"] == "all":
        pairs = permutations(case.query.names, 2)
        case = replace(case, rules=tuple(f"{given}(0.001) -> {then}(0.01)" for given, then in pairs))
    runner, spent, began = system(FOGLINE, case), [], perf_counter()
    for k, rows in case.ticks():
        runner.advance(k, rows)
        spent.append(runner.spent)
        if perf_counter() - began > MOST_SECONDS / (10 if scope.quick else 1) and len(spent) >= FEWEST:
            break
    sizes, window = runner.sizes(), min(len(spent), case.settings.lifetime) * case.settings.theta
    took = milliseconds(spent[-min(len(spent), 20) :])
    return [took | {"window": window, "live": sizes["live"], "imputed": sizes["imputed"]}]


def m_read(frame: pd.DataFrame) -> Reading:
    parts, found = [], []
    for rules, rows in frame.groupby("rules", sort=False):
        for part in PARTS:
            mean = rows.groupby(["set", "m"])[f"{part}_ms"].mean().unstack("m")
            first, last = mean.columns[0], mean.columns[-1]
            change = mean[last] / mean[first]
            if rules == "printed":
                found.append(finding(part, bool((change > 1).all()), f"{part} does not on some set, see above"))
            parts.append(
                f"rules {rules}, {part} from m = {first} to {last}: "
                f"{listed(f'{each:.3g}× ({name})' for name, each in change.items())}, at most {mean[last].max():.3g} ms"
            )
    few = frame[frame["window"] < frame["window"].max()]
    text = f"{'; '.join(parts).capitalize()}."
    if len(few):
        text += (
            " With the paper's rules a row whose determinant is missing too gets the values of all of R, and not every "
            f"window was full in time: the least held {few['window'].min():,} rows."
        )
    return by_claims(text, [worst(found, M_CLAIM)] if found else [])


M_CLAIM = "As m grows, maintenance rises and query rises"

M = Experiment(
    name="m",
    title="Efficiency over m",
    figure="Figure 19",
    question="What does a tick take as rows have more gaps?",
    claim="Both rise with m, to less than 118.7 ms and 9.21 ms.",
    trials=m_trials,
    measure=m_measure,
    plots=(
        *(
            Plot(title, "m", f"{part}_ms", "set", "rules", log_y=True, y_label="ms")
            for title, part in (("Maintenance", "maintenance"), ("Query", "query"), ("Together", "total"))
        ),
        Plot("Rows in the window", "m", "window", "set", "rules", kind="table"),
    ),
    read=m_read,
    claims=(M_CLAIM,),
)
