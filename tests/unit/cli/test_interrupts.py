"""What a command says when a signal ends it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import click
import pytest

from laneway.cli import interrupts
from laneway.cli.connection import ask
from laneway.kube.client import Client


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_a_command_that_is_interrupted_tells_what_that_means(
    number: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: c}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    )

    async def work(_: Client) -> None:
        os.kill(os.getpid(), number)
        await asyncio.Event().wait()

    with pytest.raises(click.Abort):
        ask(work, str(config), ". Run it\nagain.")

    assert capsys.readouterr().err == "laneway: interrupted. Run it again.\n"
