"""Changes pools in YAML files, and nothing else in them: comments and the order of keys stay.

The parser says where in the text a value stands, and only that is replaced.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import yaml

from laneway.changes.machine_pools import Edit
from laneway.cli.errors import Failure
from laneway.kube import rancher


class _Change(NamedTuple):
    """A part of a text, and what comes in its place."""

    start: int
    end: int
    text: str


def edited(paths: tuple[str, ...], edit: Edit) -> dict[str, str]:
    """The new texts of the files that change, by path. Raises Failure."""
    found = {}
    for path in paths:
        with open(path, encoding="utf-8", newline="") as file:
            before = file.read()
        after = before
        for change in sorted(_changes(before, edit), reverse=True):
            after = after[: change.start] + change.text + after[change.end :]
        if after != before:
            found[path] = after
    if not found:
        raise Failure("the files do not have the objects of the pool")
    return found


def write(texts: Mapping[str, str]) -> None:
    """Replace files, each as a whole. Raises Failure."""
    for path, text in texts.items():
        real = os.path.realpath(path)
        try:
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", newline="", dir=os.path.dirname(real), delete=False
            ) as file:
                file.write(text)
            os.chmod(file.name, os.stat(real).st_mode & 0o777)
            os.replace(file.name, real)
        except OSError as error:
            raise Failure(f"{path} cannot be written: {error.strerror}") from None


def _changes(text: str, edit: Edit) -> Iterator[_Change]:
    for root in yaml.compose_all(text, Loader=yaml.SafeLoader):
        if isinstance(root, yaml.MappingNode):
            listed = _child(root, "items") if _text(root, "kind") == "List" else None
            nodes = listed.value if isinstance(listed, yaml.SequenceNode) else [root]
            for node in nodes:
                yield from _of_object(node, edit)


def _of_object(node: yaml.Node, edit: Edit) -> Iterator[_Change]:
    if not isinstance(node, yaml.MappingNode):
        return
    group = _text(node, "apiVersion").partition("/")[0]
    meta = _child(node, "metadata")
    name, namespace = _text(meta, "name"), _text(meta, "namespace")
    config, cluster = edit.config.metadata, edit.cluster.metadata
    if group == rancher.CONFIG_GROUP and (name, namespace) == (config.name, config.namespace):
        for field, value in edit.fields.items():
            yield _replaced(node, field, "'" + value.replace("'", "''") + "'")
    if (
        edit.quantity is not None
        and group == rancher.GROUP
        and (name, namespace) == (cluster.name, cluster.namespace)
    ):
        pools = _child(_child(_child(node, "spec"), "rkeConfig"), "machinePools")
        if isinstance(pools, yaml.SequenceNode):
            pool = pools.value[edit.position]
            yield _replaced(pool, "quantity", str(edit.quantity))


def _replaced(node: yaml.MappingNode, key: str, value: str) -> _Change:
    """A value in a mapping; a key that is not there becomes its first one."""
    if (old := _child(node, key)) is not None:
        return _Change(old.start_mark.index, old.end_mark.index, value)
    if node.flow_style is True:
        start = node.start_mark.index + 1
        return _Change(start, start, f"{key}: {value}, ")
    start, indent = node.start_mark.index, " " * node.start_mark.column
    return _Change(start, start, f"{key}: {value}\n{indent}")


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if getattr(name, "value", None) == key:
                found: yaml.Node = value
                return found
    return None


def _text(node: yaml.Node | None, key: str) -> str:
    found = _child(node, key)
    return str(found.value) if isinstance(found, yaml.ScalarNode) else ""
