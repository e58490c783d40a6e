"""The program as it is built, started by hand, and described."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

import pytest

from laneway.kube.rancher import LANEWAY_CONFIGS
from laneway.simcluster.rancher.install import definitions
from support.machine_driver import NAME, ROOT, Machines, Programs, build, by_hand

PAGE = ROOT / "docs" / "how-to" / "machine-driver.md"


async def test_without_rancher_it_says_what_it_is_for(programs: Programs) -> None:
    done = by_hand(programs.driver)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is a plugin of rancher-machine" in done.stderr
    version = by_hand(programs.driver, "--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert f'version = "{version.stdout.strip()}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.timeout(600)
async def test_the_same_sources_make_the_same_bytes_in_any_folder(
    programs: Programs, tmp_path: Path
) -> None:
    """With a cache of its own, so that nothing comes from the other build."""
    other = tmp_path / "elsewhere" / "laneway"
    shutil.copytree(ROOT / "machine-driver", other / "machine-driver")
    shutil.copytree(ROOT / "tools" / "machine-driver", other / "tools" / "machine-driver")
    shutil.copy(ROOT / "pyproject.toml", other)
    script = other / "tools" / "machine-driver" / "build.sh"
    here = build(tmp_path / "here" / NAME)
    there = build(tmp_path / "there" / NAME, script=script, XDG_CACHE_HOME=str(tmp_path / "cache"))
    first, second = (hashlib.sha256(one.read_bytes()).hexdigest() for one in (here, there))
    assert first == second
    assert str(ROOT).encode() not in here.read_bytes()


async def test_rancher_makes_the_fields_of_its_options(alone: Machines) -> None:
    """As `nodedriver.ToLowerCamelCase` does."""
    flags = (await alone.run("flags")).value
    fields = set()
    for flag in flags:
        first, *more = flag["Name"].removeprefix("laneway-").split("-")
        fields.add(first + "".join(word.capitalize() for word in more))
    [known] = [one for one in definitions() if one["metadata"]["name"] == str(LANEWAY_CONFIGS)]
    schema = known["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert fields == set(schema["properties"]) - {"common"}
    assert {flag["EnvVar"] for flag in flags} == {
        flag["Name"].upper().replace("-", "_") for flag in flags
    }


async def test_the_page_lists_every_option(alone: Machines) -> None:
    flags = (await alone.run("flags")).value
    rows = re.findall(r"^\| `--(laneway-[a-z-]+)` \| ([^|]*) \|", PAGE.read_text(), re.MULTILINE)
    listed = {name: default.strip("` ") for name, default in rows}
    assert listed == {flag["Name"]: str(flag.get("Value", "off")) for flag in flags}
