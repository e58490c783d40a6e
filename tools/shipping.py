"""What the tools that ship other projects' definitions have in common: smaller, and one file."""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]


def copied(name: str) -> dict[str, Any]:
    """A definition as its project has it, from the unchanged copies."""
    source = ROOT / "tests/data/crds" / f"{name}.yaml"
    crd: dict[str, Any] = yaml.load(source.read_text(), Loader=yaml.CSafeLoader)
    crd.pop("status", None)
    return crd


def without_descriptions(part: Any, *, names: bool = False) -> Any:
    """A schema without texts; below `properties` every key is the name of a field."""
    if isinstance(part, list):
        return [without_descriptions(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        key: without_descriptions(value, names=key == "properties" and not names)
        for key, value in part.items()
        if names or key != "description"
    }


def ship(crds: Sequence[dict[str, Any]], target: Path) -> None:
    """Write definitions as one compressed file."""
    text = json.dumps(crds, separators=(",", ":"), sort_keys=True).encode()
    target.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
    print(f"{target.relative_to(ROOT)}: {len(text)} bytes, compressed {target.stat().st_size}")
