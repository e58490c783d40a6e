"""The page of labels, annotations and finalizers: the constants, each with the text below it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reference.markdown import code, page, table

SOURCE = Path(__file__).parents[2] / "src/laneway"

_INTRODUCTION = """
What Laneway reads and writes in the metadata of objects. Most of it is Harvester's, spelt as
Harvester spells it.
"""
_SECTIONS = {"LABEL_": "Labels", "ANNOTATION_": "Annotations", "FINALIZER_": "Finalizers"}
_DECLARED = re.compile(r"^(LABEL|ANNOTATION|FINALIZER)_\w+ = ", re.MULTILINE)


class Key(NamedTuple):
    constant: str
    value: str
    text: str


def keys() -> str:
    """All of them by kind."""
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if "simcluster" not in path.parts]
    found = sorted({key for path in paths for key in _declared(path)}, key=lambda one: one.value)
    sections = []
    for prefix, title in _SECTIONS.items():
        rows = ((code(one.value), one.text) for one in found if one.constant.startswith(prefix))
        sections += [f"## {title}", table(("name", "meaning"), rows)]
    return page("Labels, annotations, finalizers", _INTRODUCTION, *sections)


def _declared(path: Path) -> Iterator[Key]:
    text = path.read_text()
    if not _DECLARED.search(text):
        return
    body = ast.parse(text).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        match node, after:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(value))),
                ast.Expr(value=ast.Constant(value=str(about))),
            ) if name.startswith(tuple(_SECTIONS)):
                yield Key(name, value, inspect.cleandoc(about))
            case _:
                pass
