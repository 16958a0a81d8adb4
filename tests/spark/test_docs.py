"""The API reference is made of the docstrings."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"


def reference() -> Any:
    spec = importlib.util.spec_from_file_location("api", DOCS / "api.py")
    assert spec is not None
    assert spec.loader is not None
    api = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(api)
    return api


def test_the_reference_is_up_to_date():
    assert reference().page() == (DOCS / "api.md").read_text(encoding="utf-8"), "run: python docs/api.py"


def test_every_public_field_and_method_is_documented():
    api, without = reference(), []
    for prefix, room in api.ROOMS.items():
        classes = {name: thing for name in api.names_of(room) if inspect.isclass(thing := getattr(room, name))}
        for name, thing in classes.items():
            without += [f"{prefix}{name}.{each}" for each, _, about in api.fields(thing) if not about]
            public = {key: member for key, member in vars(thing).items() if not key.startswith("_")}
            without += [
                f"{prefix}{name}.{key}"
                for key, member in public.items()
                if (inspect.isfunction(member) or isinstance(member, property | classmethod))
                and not inspect.getdoc(member)
            ]
    assert without == []
