"""The definitions of KubeVirt's kinds that are shipped: made from the copies, and nothing lost."""

from __future__ import annotations

import importlib.util
import json
import lzma
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """The tool that makes them."""
    path = ROOT / "tools/kubevirt-crds/generate.py"
    spec = importlib.util.spec_from_file_location("generate_kubevirt_crds", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def shipped(generator: ModuleType) -> list[dict[str, Any]]:
    return json.loads(lzma.decompress(generator.TARGET.read_bytes()))


@pytest.mark.slow
def test_the_file_is_what_the_tool_makes_of_the_copies(
    generator: ModuleType, shipped: list[dict[str, Any]]
) -> None:
    assert shipped == [generator.definition(kind) for kind in generator.KINDS]


def test_fields_that_are_called_description_are_not_taken_for_texts(generator: ModuleType) -> None:
    schema = {
        "description": "goes",
        "properties": {
            "description": {"type": "string", "description": "goes"},
            "properties": {"properties": {"description": {"type": "string"}}},
        },
    }
    assert generator.without_descriptions(schema) == {
        "properties": {
            "description": {"type": "string"},
            "properties": {"properties": {"description": {"type": "string"}}},
        }
    }
