"""The API reference is made of the docstrings."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from typing import Any

import pyarrow as pa

import fogline as fl
from fogline.output.folder_sink import schemas_of
from fogline.pipeline.names import KINDS, VIEWS
from fogline.pipeline.plans import make_plans
from fogline.pipeline.report import schema_of

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


def test_every_column_that_comes_out_is_in_the_reference():
    query = fl.Query(attributes={"x": "max"}, id="s", time="time", latest=True, keep=["room"])
    schema = pa.schema({"s": "string", "time": "int64", "x": "float64", "room": "string"})
    plan = make_plans({"one": query}, schema, explain=True, views=True)
    own, kinds = {"s", "x", "room"}, dict(zip((*KINDS, *VIEWS), _titles(), strict=True))
    schemas = {kind: {*schema_of(plan, kind).names} for kind in kinds}
    schemas["rejects"], schemas["health"] = (set(schemas_of(plan)[kind].names) for kind in ("rejects", "health"))
    for kind, names in schemas.items():
        assert names - own - {*kinds[kind], "query", "arrived"} == set(), kind
    stated = {name for names in kinds.values() for name in names} - {"arrived", "query"}
    assert stated - {name for names in schemas.values() for name in names} == set(), "which no output has"


def _titles() -> list[dict[str, str]]:
    columns = reference().COLUMNS
    return [about for title, about in columns.items() if title != "Answers"]
