"""How much of the true skyline survives the gaps, with which imputer?

The paper's section 6.4: F-score, precision and recall against the skyline of the complete rows, at every 50th tick of
windows that begin at different rows of the set. The maintainer does not matter, since all give the same answer. It is
Fogline's, and takes 50 ticks in one leap, since only every 50th answer is asked for.

Beyond the paper, `Fogline` is what a user gets without asking for anything. It has hindsight: an answer at a tick rests
on all that had arrived by then. `Fogline-past` does without. Fogline is held against all others under the honest
protocol, on four sets with sensors, with few and with many gaps. `linear` and `nearest` look at both sides of a gap as
it does, by the same revisions (`lab.revising`).

Fogline and its rivals are trials of their own: what one answers does not depend on the others. Each plot, and each
number of a reading, is of one protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import pandas as pd

from fogline.engine.group import Incoming
from fogline.impute.protocol import Imputer
from lab.case import PROTOCOLS, Case, Settings, is_whole
from lab.experiment import Experiment, Finding, Knobs, Plot, Reading, Scalar, Scope, Verdict, by_claims, finding, worst
from lab.experiments.common import SHORT, case_at, listed, sets
from lab.imputers import imputer
from lab.imputers.sensors import WAYS
from lab.maintainers import LiveMaintainer, TickAnswer, members
from lab.race import Pair, accuracies, truth_answers
from lab.revising import REVISING, replayed

DEFAULT = "Fogline"  # the imputer that one gets without asking
PAST = "Fogline-past"  # the same without hindsight
XI = Settings().xi
AIMS = {"intel": 0.945, "beijing": 0.945, "room_climate": 0.91, "smart_building_rooms": 0.97}  # F at XI
LAST = "last"
BEHIND = 0.005  # so far behind the last value may it be in a window

EVERY = 50  # ticks between two answers
MEASURES = ("f", "precision", "recall")
LARGE, SMALL = ("intel", "beijing"), ("gas", "pump")
ROOMS = ("room_climate", "smart_building_rooms")
RIVALS = ("DD", "DD-context", "mul", "con", "mean", "last", *WAYS, "knn", "iterative")
WHO = {DEFAULT: (DEFAULT, PAST), "rivals": RIVALS}
FEW = ("DD", "mul", "con", "mean", "last")
SLOW = ("iterative",)  # with the first seed and all attributes max only
PAPERS = ("intel", "gas", "bid", "sp500", "pump", "beijing")
WINDOWS = (500, 1_000, 5_000, 10_000, 20_000, 40_000, 80_000)
MOST_WINDOW = {"gas": 1_000, "pump": 5_000, "sp500": 20_000}  # of slices
LONG = 20_000  # rows: larger windows with the first seed only
RATES = (0.1, 0.2, 0.3, 0.4, 0.5)
SOME = (0.1, XI, 0.5)  # the rates at which Fogline is held against the others
TICKS = 2 * EVERY + 1
CLOSE = 0.95  # what may pass for "close to 100 %"
Line = tuple[str, bool, bool]  # protocol; is DD close to 100 %; is it better than mul and con


# ------------------------------------------------------------------------------------------------- which windows


def table_trials(scope: Scope) -> list[Knobs]:
    """What the imputers learn from stays the same for as long as possible: then it is learnt once (`fit_once`)."""
    return [
        {"set": name, "protocol": protocol, "wishes": wish, "xi": xi, "place": place, "seed": seed, "who": who}
        for name in sets(scope, (*LARGE, *SMALL, *ROOMS))
        for protocol in PROTOCOLS
        if name not in ROOMS or protocol == "honest"
        for place, seed in _windows(name, protocol, scope)
        for wish in ((False, True) if name in LARGE else (False,))
        for xi in (SOME if protocol == "honest" and name not in SMALL and not wish else (XI,))
        for who in WHO
    ]


def _windows(name: str, protocol: str, scope: Scope) -> list[tuple[int, int]]:
    """Places and seeds: five windows, each with its own gaps and its own R; a slice has one place, and five seeds."""
    if scope.quick:
        return [(0, 1)]
    return [(0 if name in SMALL else k, k + 1) for k in range(5)]


def window_trials(scope: Scope) -> list[Knobs]:
    """As many windows of the paper's as the set has rows for."""
    return [
        {**knobs, "window": window}
        for window in ((500, 1_000) if scope.quick else WINDOWS)
        for knobs in _trials(scope)
        if (window <= MOST_WINDOW.get(str(knobs["set"]), WINDOWS[-1]) or is_whole(str(knobs["set"]), scope.data))
        and (window <= LONG or knobs["seed"] == 1)
    ]


def xi_trials(scope: Scope) -> list[Knobs]:
    rates = (RATES[0], RATES[-1]) if scope.quick else RATES
    return [{**knobs, "xi": xi} for xi in rates for knobs in _trials(scope)]


def _trials(scope: Scope) -> list[Knobs]:
    """Five windows of each of the paper's sets, each with its own gaps and its own R."""
    return [
        {"set": name, "protocol": protocol, "wishes": False, "place": place, "seed": place + 1}
        for name in sets(scope, PAPERS)
        for protocol in PROTOCOLS
        for place in range(1 if scope.quick else 1 if name in SHORT and protocol == "honest" else 5)
    ]


# ------------------------------------------------------------------------------------------------------ measuring


def measure(imputers: tuple[str, ...] | None, knobs: Knobs, scope: Scope) -> list[dict[str, Scalar]]:
    """A row for every answer of every imputer; None: of those that `who` names."""
    name = str(knobs["set"])
    turned = {key: value for key, value in knobs.items() if key not in ("set", "place", "who")}
    if name not in SHORT or is_whole(name, scope.data):
        turned["ticks"] = EVERY + 1 if scope.quick else TICKS
    place = 0 if name in SHORT and not is_whole(name, scope.data) else int(knobs["place"] or 0)
    case = case_at(name, scope, place, **turned)
    patient = knobs["seed"] == 1 and not knobs["wishes"] and not scope.quick
    asked = WHO[str(knobs["who"])] if imputers is None else imputers
    return judged(case, [each for each in asked if patient or each not in SLOW])


def judged(case: Case, imputers: Iterable[str]) -> list[dict[str, Scalar]]:
    """Every answer of each imputer, held against the truth."""
    at = range(case.full, case.length, EVERY)
    truth = truth_answers(case, at)
    rows: list[dict[str, Scalar]] = []
    for name in imputers:
        for k, one in accuracies(case, answers(name, case, at), truth).items():
            rows.append(
                {"imputer": name, "tick": k, "f": one.f, "precision": one.precision, "recall": one.recall,
                 "answered": one.answered, "true": one.true, "lost_incomplete": one.lost_incomplete,
                 "wrong_incomplete": one.wrong_incomplete}
            )  # fmt: skip
    return rows


def answers(name: str, case: Case, at: Iterable[int]) -> dict[int, TickAnswer]:
    """Tick -> answer with an imputer, by what had arrived by that tick."""
    wanted = list(at)
    if name not in REVISING:
        return leaps(case, imputer(name, case), wanted)
    found = replayed(case, REVISING[name](case), stops(wanted))
    return {k: found[k] for k in wanted}


def leaps(case: Case, imputing: Imputer, at: Iterable[int]) -> dict[int, TickAnswer]:
    """Tick -> answer: as if every tick had been taken, but what is not asked for is not worked out."""
    tree = LiveMaintainer(case.query)
    pair, theta, group = Pair(case.query, imputing, tree), case.settings.theta, tree.group
    answers, done = {}, 0
    for k in stops(at):
        rows = case.rows.slice(done * theta, (k + 1 - done) * theta)
        group.advance(tree.clock, k, Incoming(pair.impute(*pair.read(rows))), False)
        tree.clock, done = k, k + 1
        answers[k] = members(group.live)
    return {k: answers[k] for k in at}


def stops(at: Iterable[int]) -> list[int]:
    """The ticks that are asked for, and enough before them that no leap is too large."""
    wanted = sorted(at)
    return sorted({*range(EVERY - 1, wanted[-1], EVERY), *wanted})


# -------------------------------------------------------------------------------------------------------- reading


def table_read(frame: pd.DataFrame) -> Reading:
    """First the paper's DD at its defaults, then Fogline. The tables below have the rest, with its spread."""
    measured = frame[frame["set"].isin((*LARGE, *SMALL)) & (frame["xi"] == XI)]
    if not (measured["imputer"] == "DD").any():
        measured = measured[:0]
    honest = frame[
        (frame["protocol"] == "honest") & ~frame["wishes"].astype(bool) & frame["set"].isin((*LARGE, *ROOMS))
    ]
    lead = ahead(honest, SLOW)
    if measured.empty:
        return Reading("beyond the paper", lead or "Too little was measured to conclude anything.")
    paper = _paper_read(measured)
    return Reading(paper.verdict, f"{paper.text} {lead}".rstrip())


def _paper_read(frame: pd.DataFrame) -> Reading:
    """DD beside the best of the others; the protocols apart."""
    parts, good = [], []
    for (protocol, wishes, name), rows in frame.groupby(["protocol", "wishes", "set"], sort=False):
        mean = rows.groupby(["imputer", "place", "seed"])["f"].mean().groupby("imputer").mean()
        if "DD" not in mean or len(mean) < 2:
            continue
        best = str(mean.drop("DD").idxmax())
        chosen = ", directions by choice" if wishes else ""
        parts.append(f"{protocol}, {name}{chosen}: {mean['DD']:.3f} ({best} {mean[best]:.3f})")
        good.append((str(protocol), *_dd_holds(mean)))
    text = f"{_lines_text(good)} F-scores of DD, and of the best imputer: {'; '.join(parts)}.{_why(frame)}"
    for name in SMALL:
        if name in set(frame["set"]):
            text += f" Of the slice of {name} there is a window of {SHORT[name]['window']:,} rows only."
    return Reading(_verdict(good), text)


def _why(frame: pd.DataFrame) -> str:
    """Who is it that DD loses, where the window has the paper's size?"""
    dd = frame[(frame["imputer"] == "DD") & frame["set"].isin(LARGE)]
    shares = []
    for protocol, rows in dd.groupby("protocol", sort=False):
        lost = (rows["true"] * (1 - rows["recall"])).sum()
        if lost >= 1:
            shares.append(f"{100 * (1 - rows['lost_incomplete'].sum() / lost):.0f} % ({protocol})")
    if not shares:
        return ""
    return (
        f" Of the true members that DD misses on {listed(LARGE)}, {listed(shares)} are complete rows; a likely reason: "
        "with one determinant distributions are wide, and many incomplete rows that each have a small chance to beat "
        "such a row bury it together."
    )


def curve_read(knob: str, frame: pd.DataFrame) -> Reading:
    """F of the paper's three over the knob."""
    parts, good = [], []
    for (protocol, name), rows in frame.groupby(["protocol", "set"], sort=False):
        mean = rows.groupby(["imputer", knob])["f"].mean().unstack(knob)
        shown = ", ".join(f"{each} {line.iloc[0]:.3f} → {line.iloc[-1]:.3f}" for each, line in mean.iterrows())
        parts.append(f"{protocol}, {name}: {shown}")
        good.append((str(protocol), *_dd_holds(mean.min(axis=1))))
    ends = f"{frame[knob].min():g} to {frame[knob].max():g}"
    text = f"{_lines_text(good)} F-scores from {knob} = {ends}. {'; '.join(parts)}."
    return by_claims(text, _findings(knob, frame, good))


def _findings(knob: str, frame: pd.DataFrame, good: list[Line]) -> list[Finding]:
    """Figure 10 claims that DD is close to 100 % and ahead; Figure 11 that it stays so, and that mul and con fall."""
    if any(protocol == "paper" for protocol, _, _ in good):  # the paper's claims are about its own protocol
        good, frame = [each for each in good if each[0] == "paper"], frame[frame["protocol"] == "paper"]
    close, better = sum(each for _, each, _ in good), sum(each for _, _, each in good)
    left_open = "what the rules' one attribute leaves open stays unknown"
    parts = [finding("close", close == len(good), f"close to 100 % in {close} of {len(good)} lines: {left_open}")]
    if knob == "window":
        parts.append(finding("above", better == len(good), f"above both in {better} of {len(good)} lines"))
        return [worst(parts, OVER_WINDOW)]
    mean = frame.groupby(["protocol", "set", "imputer", knob])["f"].mean().unstack(knob)
    rivals = mean[mean.index.get_level_values("imputer").isin(("mul", "con"))]
    falls = rivals[rivals.columns[-1]] < rivals[rivals.columns[0]]
    parts.append(finding("fall", bool(falls.all()), f"mul and con fall in {falls.sum()} of {len(falls)} lines"))
    return [worst(parts, OVER_XI)]


def _dd_holds(f: pd.Series) -> tuple[bool, bool]:
    """Is the paper's DD close to 100 %, and better than mul and con?"""
    dd = f.get("DD", 0.0)
    return bool(dd >= CLOSE), bool(dd > max(f.get("mul", 0.0), f.get("con", 0.0)))


def _verdict(good: list[Line]) -> Verdict:
    return "holds" if all(close and better for _, close, better in good) else "fails here"


def _lines_text(good: list[Line]) -> str:
    parts = []
    for protocol in dict.fromkeys(each for each, _, _ in good):
        close, better = zip(*(pair for each, *pair in good if each == protocol), strict=True)
        parts.append(
            f"under the {protocol} protocol at {CLOSE:g} or above in {sum(close)} of {len(close)} lines, and better "
            f"than both mul and con in {sum(better)}"
        )
    return f"DD by the paper's method is {'; '.join(parts)}."


def _plots(x: str, **options: Any) -> tuple[Plot, ...]:
    """One per protocol and measure."""
    return tuple(
        Plot(f"{measure.capitalize()}, {protocol} protocol", x, measure, "imputer", "set",
             {"protocol": protocol, "wishes": False}, **options)
        for protocol in PROTOCOLS
        for measure in MEASURES
    )  # fmt: skip


def _table(measure: str, protocol: str, wishes: bool, xi: float | None) -> Plot:
    """Imputers down, sets across, with the spread over windows and seeds; at one rate, or averaged over SOME."""
    rate = f"ξ = {xi:g}" if xi is not None else f"averaged over ξ = {listed(f'{each:g}' for each in SOME)}"
    where: dict[str, Any] = {"protocol": protocol, "wishes": wishes}
    where |= {"xi": xi} if xi is not None else {"xi": SOME, "set": (*LARGE, *ROOMS)}  # others have one rate only
    return Plot(
        f"{measure.capitalize()}, {protocol} protocol, {'directions by choice' if wishes else 'all max'}, {rate}",
        "imputer", measure.lower(), "set", where=where, kind="table", spread=True, per=("place", "seed"),
    )  # fmt: skip


OVER_WINDOW = "F of DD is close to 100 % at every |W|, and significantly above that of mul and con"
OVER_XI = "F of DD is close to 100 % at every ξ, and that of mul and con falls"
_CLAIM = "The F-score of DD is close to 100 % on all four real sets, and significantly above that of mul and con"

FSCORE = Experiment(
    timed=False,
    name="fscore",
    title="F-score with every imputer, at the defaults",
    figure="Figures 10 and 11, at the defaults",
    question="How much of the true skyline is answered, by which imputer, under which protocol?",
    claim=f"{_CLAIM}.",
    trials=table_trials,
    measure=partial(measure, None),
    plots=(
        _table("F", "honest", False, None),
        *(_table("F", "honest", False, xi) for xi in SOME if xi != XI),
        *(
            _table(measure, protocol, wishes, XI)
            for protocol in PROTOCOLS
            for wishes in (False, True)
            for measure in MEASURES
        ),
    ),
    read=table_read,
)  # fmt: skip

FSCORE_WINDOW = Experiment(
    timed=False,
    name="fscore_window",
    title="F-score over |W|",
    figure="Figure 10",
    question="Does the window's size change how much of the true skyline is answered?",
    claim=f"{_CLAIM}, for |W| from 5K to 80K.",
    trials=window_trials,
    measure=partial(measure, FEW),
    plots=_plots("window", log_x=True, x_label="|W|"),
    read=partial(curve_read, "window"),
    claims=(OVER_WINDOW,),
)

FSCORE_XI = Experiment(
    timed=False,
    name="fscore_xi",
    title="F-score over ξ",
    figure="Figure 11",
    question="Does it matter how many rows have gaps?",
    claim=f"{_CLAIM}, even with ξ = 0.5; those of mul and con fall smoothly with ξ.",
    trials=xi_trials,
    measure=partial(measure, FEW),
    plots=_plots("xi", x_label="ξ"),
    read=partial(curve_read, "xi"),
    claims=(OVER_XI,),
)


# ----------------------------------------------- is Fogline's default ahead of all others, and what keeps it from more?


def ahead(frame: pd.DataFrame, slow: Iterable[str] = ()) -> str:
    """What the rows show; nothing if Fogline, or all others, are missing. `slow` were not measured with every seed."""
    f = frame.groupby(["set", "xi", "imputer"], sort=False)["f"].mean().unstack("imputer")
    if DEFAULT not in f or f.drop(columns=PAST, errors="ignore").shape[1] < 2:
        return ""
    rates = listed(f"{xi:g}" for xi in sorted(frame["xi"].unique()))
    there = [each for each in slow if each in f]
    return (
        f"Fogline's default, under the honest protocol with all attributes max, averaged over ξ = {rates}: "
        f"{'; '.join(_average(str(name), rows) for name, rows in frame.groupby('set', sort=False))}. {_worst(f)}"
        f"{_behind(frame)}{_limits(frame)}"
        f"{f' Of {listed(there)}, only the first seed is measured.' if there else ''}"
    )


def differences(frame: pd.DataFrame) -> pd.DataFrame:
    """F of Fogline less that of the last value, and of the best rival: for each set, rate and window."""
    f = frame.groupby(["set", "xi", "place", "imputer"], sort=False)["f"].mean().unstack("imputer")
    rivals = f.drop(columns=[DEFAULT, PAST], errors="ignore")
    out = pd.DataFrame({"best": f[DEFAULT] - rivals.max(axis=1)})
    if LAST in f:
        out[LAST] = f[DEFAULT] - f[LAST]
    return out.dropna().reset_index()


def _behind(frame: pd.DataFrame) -> str:
    """In how many windows is it behind the last value, or the best rival, and how far at worst?"""
    apart = differences(frame)
    parts = []
    for what, column in (("the last value", LAST), ("the best other", "best")):
        if column in apart and len(apart):
            worst = apart.iloc[int(apart[column].argmin())]
            behind = int((apart[column] < -BEHIND).sum())
            parts.append(
                f"by more than {BEHIND:g} behind {what} in {behind} (least difference {worst[column]:+.3f}: "
                f"{worst['set']}, ξ = {worst['xi']:g}, window {worst['place']})"
            )
    return f" Of {len(apart)} windows at one rate, it is {listed(parts)}." if parts else ""


def _average(name: str, rows: pd.DataFrame) -> str:
    """On one set: Fogline's F and that of the best other, each with its spread over windows and seeds."""
    rates = rows.groupby("imputer")["xi"].nunique()
    whole = rows[rows["imputer"].isin(rates.index[rates == rates.max()])]
    f = whole.groupby(["imputer", "place", "seed"])["f"].mean().unstack("imputer")
    best = f.drop(columns=[DEFAULT, PAST], errors="ignore").mean().nlargest(1).index
    return f"{name}: {', '.join(_shown(who, f[who]) for who in (DEFAULT, PAST, *best) if who in f)}"


def _shown(who: str, f: pd.Series) -> str:
    return f"{who} {f.mean():.3f}" + (f" ± {f.std():.3f}" if f.count() > 1 else "")


def _worst(f: pd.DataFrame) -> str:
    """The cell in which Fogline does worst beside the best of the others. `f`: a line per set and rate."""
    others = f.drop(columns=[DEFAULT, PAST], errors="ignore")
    gap = (f[DEFAULT] - others.max(axis=1)).dropna()
    if gap.empty:
        return ""
    at = int(gap.argmin())
    name, xi = gap.index[at]
    low, best = float(gap.iloc[at]), others.loc[gap.index[at : at + 1]].iloc[0].idxmax()
    side = "below" if low < 0 else "above"
    return f"Beside the best other it does worst on {name} at ξ = {xi:g}: {abs(low):.3f} {side} {best}."


def _limits(frame: pd.DataFrame) -> str:
    """How near is Fogline to its aim, and which rows keep it from there?"""
    default = frame[(frame["xi"] == XI) & (frame["imputer"] == DEFAULT)]
    parts = [_limit(name, default[default["set"] == name]) for name in AIMS if name in set(default["set"])]
    return f" At ξ = {XI:g}: {'. '.join(parts)}." if parts else ""


def _limit(name: str, rows: pd.DataFrame) -> str:
    true, lost_gaps, wrong_gaps = rows["true"], rows["lost_incomplete"], rows["wrong_incomplete"]
    lost, wrong = true * (1 - rows["recall"]), rows["answered"] * (1 - rows["precision"])
    parts = [f"{name} {rows['f'].mean():.3f}, against an aim of {AIMS[name]:g}"]
    for part, whole, what in ((lost_gaps, lost, "members it misses"), (wrong_gaps, wrong, "rows it answers wrongly")):
        if whole.sum() >= 1:
            parts.append(f"{100 * part.sum() / whole.sum():.0f} % of the {what} have gaps themselves")
    others = f_score(true, lost_gaps, wrong_gaps).mean()
    gaps = f_score(true, lost - lost_gaps, wrong - wrong_gaps).mean()
    parts.append(f"it would be {others:.3f} if it judged all complete rows rightly, {gaps:.3f} if all with gaps")
    return "; ".join(parts)


def f_score(true: pd.Series, lost: pd.Series, wrong: pd.Series) -> pd.Series:
    """F with so many true members, so many of them lost, and so many rows answered wrongly."""
    hits = true - lost
    return (2 * hits / (2 * hits + lost + wrong)).fillna(1.0)
