"""Manifests as people keep them: files and folders of YAML or JSON, several documents in each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kubebasics import yaml_text

Manifest = str | os.PathLike[str] | Mapping[str, Any]
"""A path of a file or a folder, or an object."""

_SEPARATOR = re.compile(r"^---(?:[ \t].*)?$", re.MULTILINE)
_SUFFIXES = (".yaml", ".yml", ".json")
_CRD = "CustomResourceDefinition"


class ManifestError(Exception):
    """A manifest cannot be used; the text says which and why."""


def documents(manifests: Sequence[Manifest]) -> list[Mapping[str, Any]]:
    """All objects; definitions first, so that those of their kinds can follow."""
    found = [one for manifest in manifests for one in _objects(manifest)]
    return sorted(found, key=lambda one: one["kind"] != _CRD)


def _objects(manifest: Manifest) -> Iterator[Mapping[str, Any]]:
    if isinstance(manifest, Mapping):
        yield from _items(manifest, "a manifest")
        return
    path = Path(manifest)
    try:
        files = (
            sorted(p for p in path.iterdir() if p.suffix in _SUFFIXES) if path.is_dir() else [path]
        )
        for file in files:
            for text in _SEPARATOR.split(file.read_text(encoding="utf-8")):
                yield from _items(yaml_text.read(text.encode()), str(file))
    except OSError as error:
        raise ManifestError(f"{error.filename or path}: {error.strerror}") from error
    except (UnicodeDecodeError, yaml_text.YamlError) as error:
        raise ManifestError(f"{path} is not YAML: {error}") from error


def _items(document: Any, where: str) -> Iterator[Mapping[str, Any]]:
    if document is None:
        return
    if not isinstance(document, Mapping) or not {"apiVersion", "kind"} <= document.keys():
        raise ManifestError(f"{where}: a document names no apiVersion and kind")
    if document["kind"] == "List":
        for item in document.get("items") or ():
            yield from _items(item, where)
        return
    yield document
