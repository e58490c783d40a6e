"""The third-party files are those that sources.toml names, and load nothing that is not here."""

from __future__ import annotations

import gzip
import hashlib
import tomllib
from pathlib import Path

import pytest

VENDOR = Path(__file__).parents[5] / "src/laneway/web/static/vendor"
PACKAGES = tomllib.loads((VENDOR / "sources.toml").read_text())["package"]
HASHES = {file["name"]: file["sha256"] for one in PACKAGES for file in one["file"]}


@pytest.mark.parametrize("name", HASHES)
def test_a_file_is_what_was_made_of_its_package(name: str) -> None:
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == HASHES[name]


def test_there_is_no_other_file_and_each_package_has_its_licence() -> None:
    licences = {f"LICENSE-{one['name']}" for one in PACKAGES}
    about = {"README.md", "sources.toml"}
    assert {path.name for path in VENDOR.iterdir()} == HASHES.keys() | licences | about


def test_the_style_sheet_loads_nothing_and_is_small() -> None:
    sheet = (VENDOR / "patternfly.css").read_text()
    assert not [part for part in ("url(", "@import", "@font-face") if part in sheet]
    assert len(gzip.compress(sheet.encode())) < 120_000
