"""`laneway plan --from` a capture: told apart from an inventory file by its content."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from laneway.cli import cli
from laneway.core.fleet.inventory_file import write
from laneway.core.fleet.made_up import made_up
from laneway.host.capture import capture
from laneway.sim.spec import build, parse_spec


@pytest.fixture(scope="module")
def dump() -> bytes:
    return capture(build(parse_spec("l40s"), "node1")).encode()


def _ask(source: str, content: bytes = b"") -> Result:
    command = ["plan", "what-if", "--from", source, "--vms", "5x L40S-24Q"]
    return CliRunner().invoke(cli, command, input=content, standalone_mode=False)


def test_the_content_says_what_a_file_is(dump: bytes, tmp_path: Path) -> None:
    contents = {
        "one.yaml": dump,
        "two.json": gzip.compress(dump),
        "three.umockdev": write(made_up("l40s")).encode(),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        asked = _ask(str(tmp_path / name))
        assert (asked.return_value, asked.exception) == (3, None)
        assert "No: of 5 VMs there is room for 4." in asked.output
        assert ("the mode of" in asked.stderr) is (name != "three.umockdev")
        assert ("node one: NVIDIA L40S-24Q on one-000017000, made" in asked.output) is (
            name == "one.yaml"
        )


def test_a_capture_comes_by_standard_input_as_well(dump: bytes) -> None:
    assert "node host: NVIDIA L40S-24Q on host-000017000, made" in _ask("-", dump).output


def test_a_capture_that_was_cut_off_is_refused(dump: bytes, tmp_path: Path) -> None:
    file = tmp_path / "node.umockdev.gz"
    for content, words in (
        (gzip.compress(dump)[:1000], f"cannot read the dump {file}"),
        (dump[:1000], "so it was cut off"),
    ):
        file.write_bytes(content)
        asked = _ask(str(file))
        assert words in str(asked.exception)
