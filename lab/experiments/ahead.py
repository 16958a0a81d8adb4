"""Is what Fogline does by itself ahead of all others, and what keeps it from more?

Read from rows of F-scores: one for every answer of every imputer, under one protocol, at several rates of gaps.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from lab.case import Settings
from lab.experiments.common import listed

DEFAULT = "Fogline"  # the imputer that one gets without asking
PAST = "Fogline-past"  # the same without hindsight
XI = Settings().xi
AIMS = {"intel": 0.945, "beijing": 0.945, "room_climate": 0.91, "smart_building_rooms": 0.97}  # F at XI
LAST = "last"
BEHIND = 0.005  # so far behind the last value may it be in a window


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
        f"{_windows(frame)}{_limits(frame)}"
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


def _windows(frame: pd.DataFrame) -> str:
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
