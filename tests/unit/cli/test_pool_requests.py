"""What `laneway pools` refuses before it asks a cluster."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from laneway.cli import cli


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("list", "-n", "../../version?"), "'../../version?' cannot be a namespace"),
        (("set", "guest", "gpu", "A2-8Q=0"), "a count of 1 to 64. To remove all devices, use"),
    ],
)
def test_what_no_cluster_has(arguments: tuple[str, ...], words: str) -> None:
    result = CliRunner().invoke(cli, ["pools", *arguments])
    assert result.exit_code != 0
    assert words in " ".join(result.output.split())
