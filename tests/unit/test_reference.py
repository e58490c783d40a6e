"""The generated pages of docs/reference/ are what the program is now."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    folder = ROOT / "tools/reference"
    spec = spec_from_file_location(
        "reference", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = sys.modules["reference"] = module_from_spec(spec)
    spec.loader.exec_module(package)
    from reference import pages as found  # noqa: PLC0415 - there from here on

    return found


def test_no_page_differs_from_the_program(pages: ModuleType) -> None:
    assert sorted(pages.stale()) == [], "run make reference"
