"""Nodes as caches keep them: a node has a hundred labels, most of which its neighbours have too."""

from __future__ import annotations

import sys
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from laneway.api import CoreNode, decode

N = TypeVar("N", bound=CoreNode)


def node(kind: type[N], raw: bytes | msgspec.Raw) -> N:
    """Decode a node; the texts of its labels are kept once."""
    whole = decode(kind, raw)
    text = sys.intern
    labels = {text(key): text(value) for key, value in whole.metadata.labels.items()}
    return replace(whole, metadata=replace(whole.metadata, labels=labels))
