"""A token goes to no address where others could read it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from laneway.cli.commands.history import history


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://laneway.example.org", "is not encrypted, and gets your token"),
        ("http://127.0.0.1.example.org", "is not encrypted, and gets your token"),
        ("laneway.example.org", "is no address"),
        ("ftp://laneway.example.org", "is no address"),
    ],
)
def test_an_address_that_would_show_the_token_is_refused(url: str, why: str) -> None:
    done = CliRunner().invoke(history, ["--url", url])
    assert done.exit_code == 1
    assert why in done.output
    assert "give https://HOST" in done.output
