"""`laneway up` is called rightly or says how, before it starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from laneway.cli.commands.roles import up


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--no-local",), "leaves no host"),
        (("--rancher",), "--rancher needs simulated hosts"),
        (("--cluster-api",), "--cluster-api needs simulated hosts"),
        (
            ("--simulate", "a2", "--cluster-api", "--vsphere"),
            "--cluster-api and --vsphere exclude each other",
        ),
    ],
)
def test_the_impossible_is_reported(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    result = CliRunner().invoke(up, ["--data-dir", str(tmp_path / "data"), *arguments])

    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
    assert not [*tmp_path.iterdir()]
