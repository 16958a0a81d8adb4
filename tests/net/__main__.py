"""`python -m tests.net`: does today's code answer what was recorded?

--record      write what it answers now, held to the reference where that covers it; what is not asked for stays
--only        streams by a pattern: latest/17, "latest/*", latest
--engine      engines by a pattern: monitor, "small*"
--fast        a sample of each mode, well under a minute, without Spark
--spark       also what Spark answers; --spark --engine "spark*" that alone
--tolerance   by how much floats may differ, for a step that declares it; without, they are equal to the bit
--strict      counters count, too
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable

from tests.net import record
from tests.net.compare import Difference
from tests.net.modes import covered, lacking, matrix
from tests.net.record import Result, Task
from tests.net.streams import stream, streams

SHOWN = 12  # differences that are shown whole


def main(words: list[str] | None = None) -> int:
    asked = _arguments(words)
    if asked.covering:
        return _covering(asked.covering, asked.engine)
    sparks = _spark_tasks(asked) if asked.spark else []
    plain = record.tasks(asked.only, asked.engine, fast=asked.fast)
    plain = [] if asked.engine.startswith("spark") else plain
    if not plain and not sparks:
        print("no stream has such a name, or no engine; see tests/net/matrix.md")
        return 2
    work, fine = record.written if asked.record else record.compared, True
    for path, todo, jobs in ((record.KEPT, plain, asked.jobs), (record.SPARKS, sparks, 1)):
        kept = record.read(path)
        found = _followed(record.results(work, todo, kept, asked.tolerance, jobs), len(todo))
        fine = _summed(found, strict=asked.strict) and fine
        if asked.record and todo:
            kept |= {each.task.name: each.line for each in found if each.line}
            record.write(path, [kept[each.name] for each in streams() if each.name in kept])
    if asked.record:
        fine = _drawn() and fine
    return 0 if fine else 1


def _followed(results: Iterable[Result], count: int) -> list[Result]:
    """The results, while what goes on is shown."""
    found, begun, shown, wrong = [], time.monotonic(), time.monotonic(), 0
    for each in results:
        found.append(each)
        hard = [one for one in each.found if not one.soft]
        for one in hard[: max(0, SHOWN - wrong)]:
            print(f"DIFFERS {one}", flush=True)
        if each.error:
            print(f"FAILED {each.error}", flush=True)
        wrong += len(hard) + bool(each.error)
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            print(f"{len(found)} of {count} streams, {wrong} differences, {shown - begun:.0f} s", flush=True)
    if count:
        print(f"{count} streams in {time.monotonic() - begun:.0f} s")
    return found


def _summed(found: list[Result], *, strict: bool) -> bool:
    """A summary; whether all is as it was."""
    seconds, verdicts = Counter[str](), Counter[str]()
    hard, soft = list[Difference](), list[Difference]()
    for each in found:
        seconds.update(each.seconds)
        verdicts.update(each.verdicts.values())
        for one in each.found:
            (soft if one.soft else hard).append(one)
    failed = [each for each in found if each.error]
    for where, some in Counter(f"engine {one.engine!r}, {one.section}" for one in hard).items():
        print(f"  {some} streams differ: {where}")
    for name, some in Counter(f"{one.engine!r}:{one.where}" for one in soft).most_common(10):
        print(f"  a counter differs in {some} streams: {name}{'' if strict else ' (--strict would fail)'}")
    if seconds:
        print("  seconds: " + ", ".join(f"{name} {value:.0f}" for name, value in seconds.most_common()))
    if verdicts:
        print("  by the reference: " + ", ".join(f"{name}: {count}" for name, count in verdicts.most_common()))
    fine = not hard and not failed and not (strict and soft)
    if found:
        print("as it was" if fine else f"NOT as it was: {len(hard)} differences, {len(failed)} failures")
    return fine


def _spark_tasks(asked: argparse.Namespace) -> list[Task]:
    from tests.net.sparks import tasks

    return tasks(asked.only, asked.engine)


def _drawn() -> bool:
    """The matrix of what is kept; whether every supported pair is covered."""
    import json

    pairs = []
    for path in (record.KEPT, record.SPARKS):
        for name, line in record.read(path).items():
            mode, seed = name.rsplit("/", 1)
            engines = [*json.loads(line)["engines"]]
            this = stream(mode, int(seed))
            engines += ["restored"] if "restored" in this.engines and "monitor" in engines else []
            pairs.append((this, engines))
    found = covered(pairs)
    record.MATRIX.write_text(matrix(found))
    lack = lacking(found)
    for feature, engine in lack:
        print(f"no stream covers {feature!r} on {engine!r}")
    return not lack


def _covering(feature: str, engine: str) -> int:
    from tests.net.driving import engines_of

    found = covered((each, engines_of(each)) for each in streams())
    for (of, on), names in found.items():
        if of == feature and (not engine or on == engine):
            print(f"{on}: {' '.join(names)}")
    return 0


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.net", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--engine", default="")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--tolerance", type=float, default=0.0)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--covering", default="", help="which streams show a feature, by engine")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
