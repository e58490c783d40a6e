"""Commands of `laneway` without a process each: what they say, and how they end."""

from __future__ import annotations

import os
import subprocess

from click.testing import CliRunner

from laneway.cli import run


def command(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """As a person runs it whose environment names no cluster; not in a terminal."""
    kubernetes = {key: None for key in os.environ if key.startswith("KUBE")}
    settings = kubernetes | {"HOME": "/proc/none", "COLUMNS": "60"} | env
    with CliRunner().isolation(env=settings) as (out, err, _):
        status = run(arguments)
        said = out.getvalue(), err.getvalue()
    return subprocess.CompletedProcess(
        ["laneway", *arguments], status, said[0].decode(), said[1].decode()
    )
