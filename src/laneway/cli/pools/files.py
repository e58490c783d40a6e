"""Changes pools in YAML files, and nothing else in them: comments and the order of keys stay.

The parser says where in the text a value stands, and only that is replaced.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import yaml

from laneway.changes.machine_pools import Edit, unkept
from laneway.cli.errors import Failure
from laneway.cli.pools.documents import text_of
from laneway.core.machine_pools.device_info import HOST_DEVICES
from laneway.kube import rancher

_LINE_END = re.compile(r"\r?\n")


class _Change(NamedTuple):
    """A part of a text, and what comes in its place."""

    start: int
    end: int
    text: str


def edited(paths: tuple[str, ...], edit: Edit) -> dict[str, str]:
    """The new texts of the files that change, by path. Raises Failure, ChangeError."""
    kind = edit.pool.spec.machine_config_ref.kind
    if kind == rancher.HARVESTER_CONFIGS.kind and edit.fields.get(HOST_DEVICES.field):
        raise unkept(HOST_DEVICES.field, kind)
    found = {}
    for path in paths:
        before = after = text_of(path)
        for change in sorted(_changes(before, edit), reverse=True):
            after = after[: change.start] + change.text + after[change.end :]
        if after != before:
            found[path] = after
    if not found:
        raise Failure("the files do not have the objects of the pool")
    return found


def write(texts: Mapping[str, str]) -> None:
    """Replace files, each as a whole, all or none. Raises Failure."""
    with contextlib.ExitStack() as stack:
        ready = [(path, *_prepared(path, text, stack)) for path, text in texts.items()]
        for path, new, real in ready:
            try:
                os.replace(new, real)
            except OSError as error:
                raise _unwritable(path, error) from None


def _prepared(path: str, text: str, stack: contextlib.ExitStack) -> tuple[str, str]:
    """A new file next to the old one, which goes unless it takes its place; and the old one."""
    real = os.path.realpath(path)
    try:
        mode = os.stat(real).st_mode & 0o777
        if not mode & 0o222 or not os.access(real, os.W_OK):
            raise Failure(f"{path} is read-only; nothing was changed")
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="", dir=os.path.dirname(real), delete=False
        ) as file:
            stack.callback(_remove, file.name)
            file.write(text)
        os.chmod(file.name, mode)
    except OSError as error:
        raise _unwritable(path, error) from None
    return file.name, real


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _unwritable(path: str, error: OSError) -> Failure:
    return Failure(f"{path} cannot be written: {error.strerror}")


def _changes(text: str, edit: Edit) -> Iterator[_Change]:
    for root in yaml.compose_all(text, Loader=yaml.SafeLoader):
        if isinstance(root, yaml.MappingNode):
            listed = _child(root, "items") if _text(root, "kind") == "List" else None
            nodes = listed.value if isinstance(listed, yaml.SequenceNode) else [root]
            for node in nodes:
                yield from _of_object(text, node, edit)


def _of_object(text: str, node: yaml.Node, edit: Edit) -> Iterator[_Change]:
    if not isinstance(node, yaml.MappingNode):
        return
    group = _text(node, "apiVersion").partition("/")[0]
    meta = _child(node, "metadata")
    name, namespace = _text(meta, "name"), _text(meta, "namespace")
    config, cluster = edit.config.metadata, edit.cluster.metadata
    if group == rancher.CONFIG_GROUP and (name, namespace) == (config.name, config.namespace):
        values = {key: "'" + one.replace("'", "''") + "'" for key, one in edit.fields.items()}
        yield from _replaced(text, node, values)
    if (
        edit.quantity is not None
        and group == rancher.GROUP
        and (name, namespace) == (cluster.name, cluster.namespace)
    ):
        pools = _child(_child(_child(node, "spec"), "rkeConfig"), "machinePools")
        if isinstance(pools, yaml.SequenceNode):
            pool = pools.value[edit.position]
            yield from _replaced(text, pool, {"quantity": str(edit.quantity)})


def _replaced(text: str, node: yaml.MappingNode, values: Mapping[str, str]) -> Iterator[_Change]:
    """Values in a mapping; keys that are not there follow the last one of a single line."""
    new = []
    for key, value in values.items():
        if (old := _child(node, key)) is not None:
            yield _Change(old.start_mark.index, old.end_mark.index, value)
        else:
            new.append(f"{key}: {value}")
    if new:
        yield _added(text, node, new)


def _added(text: str, node: yaml.MappingNode, lines: Sequence[str]) -> _Change:
    start = node.start_mark.index
    if node.flow_style is True:
        return _Change(start + 1, start + 1, "".join(f"{line}, " for line in lines))
    indent = " " * node.start_mark.column
    for _, value in reversed(node.value):
        if value.start_mark.line == value.end_mark.line:
            # A comment at the end of that line stays there, and one above a key above it.
            end = value.end_mark.index
            found = _LINE_END.search(text, end)
            at = found.start() if found is not None else len(text)
            line_end = found[0] if found is not None else "\n"
            return _Change(at, at, "".join(f"{line_end}{indent}{line}" for line in lines))
    return _Change(start, start, "".join(f"{line}\n{indent}" for line in lines))


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
