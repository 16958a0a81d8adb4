"""Is a defect found that was there once? `python -m tests.fuzz.defects` puts each back into a copy, and looks for it.

A defect is a few edits, each as small as brings the behaviour back: a text of today's code, and what stands there
instead. An edit whose text is gone, or is there twice, is an error: the defect has to be put into the new code.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns("kept", "messy", "integration")


class Edit(NamedTuple):
    """A text of a file below src/fogline, and what stands there instead."""

    path: str
    old: str
    new: str


class Defect(NamedTuple):
    """What was wrong, and how it is put back."""

    what: str
    edits: tuple[Edit, ...]


def _one(what: str, path: str, old: str, new: str) -> Defect:
    return Defect(what, (Edit(path, old, new),))


DEFECTS: dict[str, Defect] = {
    "01-overflow": _one(
        "a sum of logarithms that 64 bits cannot hold",
        "kernels/sums.py",
        "UNIT = 2.0**27",
        "UNIT = 2.0**42",
    ),
    "01-digits": _one(
        "logarithms rounded to 2^-42",
        "kernels/sums.py",
        "np.int64(np.rint((units - whole) * FINER))",
        "np.int64(np.rint((units - whole) * 2.0**15) * 2.0**17)",
    ),
    "02-rejected-copy-read": _one(
        "on a pipeline a copy that is rejected, since its row has come before, is a reading of its sensor",
        "repository/sensors/state.py",
        "return Candidates(*cells, self.rows, versions, fate)",
        "return Candidates(*cells, np.empty((len(self.times), 0)), versions, fate)",
    ),
    "02-latest-gap-before-list": Defect(
        "with latest, of a distribution and a gap the gap counts on a pipeline, by its bounds",
        (
            Edit(
                "rows/copies.py",
                "return numbers.tolist(), float(self.expires[i]), pools, came.tolist()",
                "lo = np.nan_to_num(clouds.lo[i], nan=-np.inf)\n"
                "        return numbers.tolist(), float(self.expires[i]), lo.tolist(), pools, came.tolist()",
            ),
            Edit(
                "flow/sensors.py",
                "left_out = found.copies if self.plan.query.latest else ()",
                "left_out = ()",
            ),
        ),
    ),
    "03-copy-of-a-reject": _one(
        "a good copy is lost to one that is rejected for its gap: without sensors, in a monitor",
        "impute/intake.py",
        "fate[others(copies, fate == TAKEN)] = COPY",
        "fate[others(copies)] = COPY",
    ),
    "03-copy-of-a-reject-on-pipelines": _one(
        "the same on a pipeline",
        "flow/screening.py",
        "        for k, reason in unable(looked.clouds, looked, raw, self.query, self.plan.repository).items():\n"
        "            rows.refused.setdefault(k if which is None else int(which[k]), reason)\n"
        "        self._refuse_copies(piece)\n",
        "        self._refuse_copies(piece)\n"
        "        for k, reason in unable(looked.clouds, looked, raw, self.query, self.plan.repository).items():\n"
        "            rows.refused.setdefault(k if which is None else int(which[k]), reason)\n",
    ),
    "03-copy-of-a-reject-of-a-sensor": _one(
        "the same where sensors are remembered",
        "kernels/sensors.py",
        "        if fate == TAKEN and stamp >= 0:\n            fate = COPY if taken[stamp] else TAKEN\n",
        "        if stamp >= 0:\n            fate = COPY if taken[stamp] else fate\n",
    ),
    "04-again": _one(
        "with latest, a call with a reject and copies is imputed again by what its own rows have left in sensors",
        "taking.py",
        "    known, clouds, _, fate = _impute(monitor, called.read, keys, every, copies, stale)\n    if len(columns):",
        "    refused = len(rows.refused)\n"
        "    known, clouds, _, fate = _impute(monitor, called.read, keys, every, copies, stale)\n"
        "    if copies and len(rows.refused) > refused:\n"
        "        known, clouds, _, fate = _impute(monitor, called.read, keys, every, copies, stale)\n"
        "    if len(columns):",
    ),
    "04-version-of-a-sensor": _one(
        "versions are those of sensors, not of each attribute",
        "kernels/sensors.py",
        "            if version >= versions[j]:\n"
        "                own.values[j, 0], versions[j] = values[j], version\n"
        "        else:\n"
        "            if now > own.times[j, 0]:\n"
        "                versions[j] = version\n",
        "            if version >= versions[0]:\n"
        "                own.values[j, 0], versions[0] = values[j], version\n"
        "        else:\n"
        "            if now > newest or version >= versions[0]:\n"
        "                versions[0] = version\n",
    ),
    "05-lasting-imputer-raises": _one(
        "a call in which an imputer of the user's own raises has changed something: one that is asked when it matters",
        "monitor.py",
        "if self.chain is None or self.chain.own is None or not self.chain.own.lasting:",
        "if True:",
    ),
    "05-function-raises": _one(
        "the same with a function, which is asked when sensors have changed and gaps are revised",
        "taking.py",
        "    rows = _answered_at_once(monitor, read.rows, read.rows.left())\n",
        "    try:\n"
        "        rows = _answered_at_once(monitor, read.rows, read.rows.left())\n"
        "    except ValueError:\n"
        "        _impute(monitor, read, keys, read.rows.left(), [])\n"
        "        raise\n",
    ),
    "06-half-forgotten": Defect(
        "of too many sensors half are forgotten at the end of a call",
        (
            Edit("repository/sensors/bound.py", "return sensors + self.elsewhere <= self.most", "return True"),
            Edit(
                "repository/sensors/state.py",
                "        self.taken += taken\n",
                "        if len(self.names) > self.bound.most:\n"
                "            newest = np.argsort(-self.last_heard(slice(len(self.names))), kind='stable')\n"
                "            self._keep(np.sort(newest[: int(self.bound.most) // 2]))\n"
                "        self.taken += taken\n",
            ),
        ),
    ),
    "07-rounded-numbers": _one(
        "of rows as dicts, numbers that float64 cannot hold are rounded",
        "question.py",
        "        return real if (int(value) if isinstance(value, numbers.Integral) else value) == real else None",
        "        return real",
    ),
    "07-rounded-decimals": _one(
        "so are decimals",
        "question.py",
        "    return float(value) if len(digits) <= _DIGITS and float(value) else None",
        "    return float(value)",
    ),
    "07-rounded-columns": _one(
        "so are columns of whole numbers and decimals",
        "rows/exact.py",
        "    return bad if bad.any() else None",
        "    return None",
    ),
    "08-offset-with-a-repository": _one(
        "fl.skyline counts values from the least of them, and what is imputed from zero",
        "one_line.py",
        "        else:\n            _must_hold(cells)\n",
        "",
    ),
    "08-infinity-beaten": _one(
        "fl.skyline takes an infinity for the next float beyond the finite ones",
        "rows/measures.py",
        "values = np.where(beyond, np.copysign(_MOST, values), values)",
        "most = np.abs(few).max(initial=0.0)\n"
        "        values = np.where(beyond, np.copysign(np.nextafter(most, np.inf), values), values)",
    ),
    "08-nanoseconds": _one(
        "fl.skyline loses the nanoseconds of instants in object columns",
        "rows/frames.py",
        '        if any(getattr(each, "nanosecond", 0) or getattr(each, "nanoseconds", 0) for each in fine):',
        "        if not any(True for _ in fine):",
    ),
    "09-zeros-of-columns": _one(
        "-0.0 and 0.0 are two keys of columns",
        "rows/ids.py",
        "return without_sign_of_zero(pc.if_else(pc.is_nan(column), None, column))",
        "return pc.if_else(pc.is_nan(column), None, column)",
    ),
    "09-zeros-of-dicts": _one(
        "-0.0 and 0.0 are shown as they come where rows are dicts",
        "rows/ids.py",
        "return plain + 0.0 if isinstance(plain, float) else plain",
        "return plain",
    ),
    "09-nan-of-columns": _one(
        "NaN and null are two keys of columns",
        "rows/ids.py",
        "return without_sign_of_zero(pc.if_else(pc.is_nan(column), None, column))",
        "return without_sign_of_zero(column)",
    ),
    "09-none-is-a-text": _one(
        "None and 'None' are one group of fl.skyline",
        "rows/keys.py",
        "None if (plain := plain_value(each)) is None else (isinstance(plain, bool), plain) for",
        "str(plain_value(each)) for",
    ),
    "09-numbers-of-kinds": _one(
        "5 and 5.0 are two ids of a monitor: one of them rejects its row",
        "rows/ids.py",
        "    found = _as_number(value, kind) if number and is_number(kind) else None\n",
        "    found = None\n",
    ),
    "09-true-is-one": _one(
        "True and 1 are one id",
        "rows/ids.py",
        "    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)\n",
        "    number = isinstance(value, int | float | Decimal)\n",
    ),
    "10-sink-raises": _one(
        "a run of the embedded engine that failed in a batch goes on with the next, and loses the first",
        "flow/embedded.py",
        "        if self.failed is not None:\n",
        "        if False:\n",
    ),
    "11-idle": _one(
        "with one-row files, a silent group is never moved on",
        "flow/embedded_batch.py",
        "        if not pairs or key not in self.loaded:\n",
        "        if True:\n",
    ),
    "12-all-rejected": _one(
        "last=N and a call of which every row is rejected: IndexError",
        "taking.py",
        "TakenRows({(): batch} if len(batch.id) else {}, revisions, {})",
        "TakenRows({(): batch}, revisions, {})",
    ),
    "12-kinds-stay": _one(
        "a call that raises settles the kind of ids",
        "monitor.py",
        "        until, shown, kinds = self._move(now, read)\n",
        "        until, shown, kinds = self._move(now, read)\n        self.shown, self.kinds = shown, kinds\n",
    ),
    "13-out-of-order": _one(
        "changes of a call are out of the order of time where groups empty",
        "monitor.py",
        "        deltas.sort(key=lambda pair: pair[1].time)\n",
        "        if len(self.groups) > 1:\n            deltas.sort(key=lambda pair: pair[1].time)\n",
    ),
}  # fmt: skip


class Found(NamedTuple):
    """After how many streams the first difference came, in which runner, and of which kind."""

    streams: int
    runner: str
    kind: str


@contextmanager
def copied(defect: Defect) -> Iterator[Path]:
    """A copy of the code with the defect in it."""
    with TemporaryDirectory(prefix="fogline-defect-") as folder:
        copy = Path(folder)
        for part in ("src/fogline", "tests"):
            shutil.copytree(ROOT / part, copy / part, ignore=LEFT_OUT)
        for path, old, new in defect.edits:
            file = copy / "src/fogline" / path
            text = file.read_text()
            if text.count(old) != 1:
                raise SystemExit(f"{path} holds {text.count(old)} times, and not once:\n{old}")
            file.write_text(text.replace(old, new))
        yield copy


def searched(defect: Defect, begin: int, most: int, jobs: int) -> Found | None:
    """The first difference that the fuzzer finds; None: none in so many streams."""
    with copied(defect) as copy:
        record = copy / "record.json"
        words = ["--first", "--shown=0", f"--from={begin}", f"--streams={most}", f"--jobs={jobs}", f"--record={record}"]
        place = os.environ | {"PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}"}
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz", *words], cwd=copy, env=place, capture_output=True, text=True
        )
        if not record.exists():
            raise SystemExit(f"{done.stdout}\n{done.stderr}")
        found = json.loads(record.read_text())["found"]
    if not found:
        return None
    seed, runner, kind = found[0]
    return Found(seed - begin + 1, runner, kind)


def main(words: Sequence[str] | None = None) -> int:
    asked = _arguments(words)
    names = [name for name in DEFECTS if not asked.defects or any(name.startswith(each) for each in asked.defects)]
    print("| defect | what is wrong | found by | streams until found |\n|---|---|---|---|", flush=True)
    missed = 0
    for name in names:
        found = [searched(DEFECTS[name], begin, asked.streams, asked.jobs) for begin in asked.begin]
        missed += None in found
        by = ", ".join(dict.fromkeys(f"`{each.runner}`: {each.kind}" for each in found if each is not None))
        after = ", ".join("not found" if each is None else f"{each.streams:,}" for each in found)
        print(f"| {name} | {DEFECTS[name].what} | {by or '–'} | {after} |", flush=True)
    print(f"\n{len(names)} defects, {missed} not found in {asked.streams:,} streams each")
    return 1 if missed else 0


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.defects", description="Is each old defect found again?")
    parser.add_argument("defects", nargs="*", help="how the names of some begin; without: all")
    parser.add_argument("--from", dest="begin", type=int, nargs="+", default=[0, 1_000_000], help="first seeds")
    parser.add_argument("--streams", type=int, default=20_000, help="at most so many from each first seed")
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
