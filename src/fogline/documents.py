"""Files that are read whole: small ones, and YAML in which names stay names.

Queries, rules, properties and manifests are small. A file that is not is something else, or was made to fill the
memory: it is refused after so many bytes, and never held whole. A person may name a pipe: it is read as a file is.

Keys of YAML are texts, however they look: `NO`, `on`, `1e3` or `2024-01-01` name a column, and are no truth values,
numbers or dates. So are the values of fields that the caller calls names, alone or in a list. A key that is there twice
is an error: YAML would silently take the second. So is 1:30 where a value belongs: YAML would read 90.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from fogline.errors import FoglineError

DOCUMENT = 2**20  # bytes of what a person writes: queries, rules, properties, a token
WRITTEN = 64 * 2**20  # bytes of what Fogline writes about what it has written
DEEPEST = 50  # how deep lists and mappings may lie in one another
MOST = 100_000  # values of a document, those counted again that an alias repeats

_NUMBERS = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_TOO_DEEP = f"lists and mappings lie in one another more than {DEEPEST} deep."
_TIME = re.compile(r"^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$")  # 1:30, which YAML 1.1 reads as 90


def read_small(path: str | Path, most: int = DOCUMENT) -> bytes:
    """The content of a file that has no more than so many bytes."""
    with Path(path).open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise FoglineError(
            f"{str(path)!r} has more than {most // 2**20} MB, and such a file is never so large; is it the right one?"
        )
    return content


def read_small_text(path: str | Path, most: int = DOCUMENT) -> str:
    """The same, as text."""
    return read_small(path, most).decode("utf-8")


class DocumentError(yaml.YAMLError):
    """The document cannot be read as YAML, or contradicts itself."""


def read_document(path: str | Path, names: Collection[str] = ()) -> Any:
    """The values of a YAML (or JSON) file; what stands under a key of `names` is read as texts.

    What is wrong with it is a `DocumentError` of one line.
    """
    try:
        loader = _Loader(read_small(path))
        try:
            loader.names = names
            node = loader.get_single_node()
            return None if node is None or _count(node, {}) == 0 else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise DocumentError(_in_words(error)) from None
    except RecursionError:
        raise DocumentError(_TOO_DEEP) from None
    except (ArithmeticError, ValueError) as error:  # a number, a date that cannot be one
        raise DocumentError(f"a value in it cannot be read: {str(error)[:200]}.") from None


def _count(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """How many values a node stands for. A few aliases of aliases can stand for more than any memory holds."""
    if node not in known:
        known[node] = MOST  # one that lies in itself never ends
        inner = [each for pair in node.value for each in pair] if isinstance(node, yaml.MappingNode) else node.value
        few = inner if isinstance(node, yaml.CollectionNode) else ()
        known[node] = 1 + sum(_count(each, known) for each in few)
    if known[node] > MOST:
        raise DocumentError(f"it stands for more than {MOST:,} values; does an alias repeat others, or itself?")
    return known[node]


def _in_words(error: yaml.YAMLError) -> str:
    """What is wrong with a document, in one line."""
    if isinstance(error, yaml.reader.ReaderError):
        return "it holds bytes that are no text; is it a binary file?"
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return str(error)
    what = f"{error.problem or error.context}" if isinstance(error, yaml.MarkedYAMLError) else "it cannot be read"
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}."


class _Loader(yaml.SafeLoader):
    names: Collection[str] = ()
    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            raise DocumentError(_TOO_DEEP)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise DocumentError(f"line {node.start_mark.line + 1}: here should be 'name: value'.")
        values: dict[Any, Any] = {}
        own = {id(key) for key, _ in node.value}  # `<<` merges others, which the own ones may replace
        self.flatten_mapping(node)
        seen = set()
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise DocumentError(f"line {key_node.start_mark.line + 1}: a name is one word, not a list.")
            key = key_node.value
            if id(key_node) in own:
                if key in seen:
                    raise DocumentError(f"line {key_node.start_mark.line + 1}: {key!r} is there twice.")
                seen.add(key)
            values[key] = self._text(value_node) if key in self.names else self.construct_object(value_node, deep=True)
        return values

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        plain = isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS and node.style is None
        if plain and _TIME.match(node.value):
            raise DocumentError(
                f"line {node.start_mark.line + 1}: {node.value} would be a number of base 60 in YAML; write a length "
                "of time in words ('90 minutes'), a number in digits, and a text in quotes."
            )
        return super().construct_object(node, deep)

    def _text(self, node: Any) -> Any:
        """A scalar as it is written, and null as None; of lists and mappings the same for what is in them."""
        if isinstance(node, yaml.SequenceNode):
            return [self._text(each) for each in node.value]
        if isinstance(node, yaml.MappingNode):
            self.construct_mapping(node)  # is it one, and does it not contradict itself?
            return {key.value: self._text(value) for key, value in node.value}
        if not isinstance(node, yaml.ScalarNode) or node.tag == "tag:yaml.org,2002:null":
            return self.construct_object(node, deep=True)
        return node.value
