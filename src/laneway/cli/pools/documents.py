"""Reads Clusters and machine configurations from YAML files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from kubebasics import yaml_text
from kubebasics.yaml_text import YamlError
from laneway.cli.errors import Failure
from laneway.controllers.machine_pools import look
from laneway.controllers.machine_pools.look import Managed
from laneway.kube import rancher
from laneway.kube.errors import KubeError

_LARGEST = 16 << 20
_WRONG_TYPE = re.compile(r"Expected `([^`]+)`, got `([^`]+)`(?: - at `\$\.?([^`]*)`)?")
_TYPES = {
    "int": "a whole number",
    "float": "a number with a fraction",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a map",
}


def managed_of(paths: tuple[str, ...]) -> Managed:
    """What a management cluster with the objects of the files has. Raises Failure."""
    places: dict[str, str] = {}
    found = Managed()
    for path in paths:
        try:
            objects = _objects(path, yaml_text.read_all(text_of(path)))
        except YamlError as error:
            raise Failure(f"{path}: {error}") from None
        for title in filter(None, map(_title, objects)):
            if title in places:
                raise Failure(f"{path}: {title} is in {places[title]} already")
            places[title] = path
        try:
            more = look.of_documents(objects)
        except (ValueError, KubeError) as error:
            raise Failure(f"{path}: {_WRONG_TYPE.sub(_in_words, str(error))}") from None
        found = Managed(
            clusters=(*found.clusters, *more.clusters), configs={**found.configs, **more.configs}
        )
    return found


def text_of(path: str) -> str:
    """The text of a file, with its line ends. Raises Failure."""
    if path == "-":
        raise Failure("'-f -': standard input is not read; name a file")
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise Failure(f"{path} is not a regular file; name a YAML file")
        with open(path, "rb") as file:
            text = file.read(_LARGEST + 1)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}") from None
    if len(text) > _LARGEST:
        raise Failure(f"{path} is longer than {_LARGEST >> 20} MiB")
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise Failure(f"{path} is not UTF-8 text; save it as UTF-8") from None


def _in_words(found: re.Match[str]) -> str:
    expected = [_TYPES.get(one, one) for one in found[1].split(" | ") if one != "null"]
    where = found[3] or "the object"
    return f"{where} is {_TYPES.get(found[2], found[2])}, and must be {' or '.join(expected)}"


def _title(document: Mapping[str, Any]) -> str:
    """Kind and name of an object that matters for pools; empty for others."""
    kind, group = document.get("kind"), str(document.get("apiVersion", "")).partition("/")[0]
    meta = document.get("metadata")
    if group not in {rancher.GROUP, rancher.CONFIG_GROUP} or not isinstance(meta, dict):
        return ""
    path = f"{meta.get('namespace') or ''}/{meta.get('name') or ''}".removeprefix("/")
    return f"{kind} {path}"


def _objects(path: str, found: list[Any]) -> list[dict[str, Any]]:
    objects = []
    for document in found:
        if document is None:
            continue
        is_list = isinstance(document, dict) and document.get("kind") == "List"
        items = (document.get("items") or []) if is_list else [document]
        if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
            raise Failure(f"{path} has a document that is no object of Kubernetes")
        objects += items
    return objects
