"""How do commands share options? A command gets some more, and one function in their place that makes sense of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Any

Command = Callable[..., None]


def with_options(
    command: Command, options: Mapping[str, Any], name: str, made: Callable[[Mapping[str, Any], dict[str, Any]], Any]
) -> Command:
    """The command with these options, None where they are not given; it is passed a function `name` in their place.

    That calls `made` with the command's own options and these, when the command wants it: where errors are printed.
    """
    own = [each for key, each in signature(command, eval_str=True).parameters.items() if key != name]
    added = [Parameter(key, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for key, kind in options.items()]

    @wraps(command)
    def extended(*args: Any, **given: Any) -> None:
        found = {key: given.pop(key, None) for key in options}
        command(*args, **given, **{name: lambda: made(given, found)})

    both = sorted([*own, *added], key=lambda each: each.kind)
    extended.__dict__["__signature__"] = signature(command).replace(parameters=both)
    extended.__annotations__ = {each.name: each.annotation for each in both}
    return extended
