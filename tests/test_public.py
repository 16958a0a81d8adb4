"""Can a user import whatever a public signature names?"""

from __future__ import annotations

import importlib.util
import inspect
import tomllib
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fogline as fl

ROOT = Path(__file__).parents[1]
ROOMS: list[ModuleType] = [fl, fl.types, fl.impute, fl.plot, fl.sinks]
ROOMS += [fl.spark] if importlib.util.find_spec("pyspark") else []
MADE_ELSEWHERE = {"fogline.Repository", "fogline.Repository.__init__"}  # by fit and load: its fields are its own
EXPORTED = {id(getattr(room, name)) for room in ROOMS for name in room.__all__}


def public() -> Iterator[tuple[str, Any]]:
    """Functions, classes, and the public methods and properties of classes."""
    for room in ROOMS:
        for name in room.__all__:
            thing = getattr(room, name)
            yield f"{room.__name__}.{name}", thing
            if inspect.isclass(thing):
                for key, member in vars(thing).items():
                    if not key.startswith("_") or key == "__init__":
                        yield f"{room.__name__}.{name}.{key}", _function(member)


def _function(member: Any) -> Any:
    if isinstance(member, property):
        return member.fget
    return getattr(member, "__func__", getattr(member, "func", member))


def named(hint: Any) -> Iterator[type]:
    """The classes that an annotation names, in its arguments too."""
    if inspect.isclass(hint) and not typing.get_args(hint):
        yield hint
    for each in typing.get_args(hint):
        yield from named(each) if not isinstance(each, list) else (one for part in each for one in named(part))


def hints(thing: Callable[..., Any]) -> dict[str, Any]:
    """Annotations, with names that are imported for type checkers only left as texts."""
    try:
        return typing.get_type_hints(thing)
    except NameError as error:
        pytest.fail(f"a signature names {error.name!r}, which is there for type checkers only")
    except TypeError:
        return {}


THINGS = [pytest.param(thing, id=name) for name, thing in public() if callable(thing) and name not in MADE_ELSEWHERE]


@pytest.mark.parametrize("thing", THINGS)
def test_what_a_public_signature_names_can_be_imported(thing):
    classes = [each for hint in hints(thing).values() for each in named(hint)]
    hidden = {each.__name__ for each in classes if each.__module__.startswith("fogline") and id(each) not in EXPORTED}
    assert hidden == set(), "export them in fogline/types.py"


def test_few_names_are_at_the_top_and_no_internal_one():
    shown = [name for name in dir(fl) if not name.startswith("__")]
    assert shown == [
        "FoglineError", "HistoryWarning", "Imputer", "Monitor", "Queries", "Query", "Repository",
        "RowsRejectedWarning", "Rule", "Sink", "errors", "impute", "plot", "run", "show", "sinks", "skyline", "spark",
        "types", "verify",
    ]  # fmt: skip
    assert inspect.isfunction(fl.skyline)
    assert importlib.util.find_spec("fogline.skyline") is None
    for room in (fl.types, fl.impute, fl.plot, fl.sinks):
        assert {name for name in dir(room) if not name.startswith("__")} == set(room.__all__)


def test_what_is_exported_is_documented():
    things = {name: getattr(room, name) for room in ROOMS for name in room.__all__}
    named_things = {
        name: thing for name, thing in things.items() if inspect.isclass(thing) or inspect.isfunction(thing)
    }
    without = [name for name, thing in named_things.items() if not inspect.getdoc(thing)]
    assert without == []


def test_the_package_ships_its_types():
    marker = Path(fl.__file__).with_name("py.typed")
    assert marker.is_file()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {**wheel, "hooks": {}} == {"packages": ["src/fogline"], "hooks": {}}  # the whole folder, nothing excluded


def test_the_lab_is_in_the_source_archive_and_not_in_the_wheel():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    targets = settings["tool"]["hatch"]["build"]["targets"]
    assert "/lab" in targets["sdist"]["include"]  # with the tests, which import it
    assert targets["wheel"]["packages"] == ["src/fogline"]
    assert (ROOT / "lab" / "__main__.py").is_file()
    assert not list((ROOT / "src").rglob("lab/*.py"))
