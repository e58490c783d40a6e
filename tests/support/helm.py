"""Helm itself, with an administrator's rights, on a server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.chart import RELEASE, Object

SECONDS = 120.0


class Helm:
    """The release of Laneway in a namespace.

    Each call is a process: Helm keeps connections for as long as it lives, and the server is to end
    before this one does.
    """

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        self._kubeconfig, self._namespace = kubeconfig, namespace

    def install(self, chart: Path, values: Object) -> Any:
        return self._run("install", str(chart), RELEASE, values)

    def upgrade(self, chart: Path, values: Object) -> Any:
        return self._run("upgrade", str(chart), RELEASE, values)

    def rollback(self) -> Any:
        return self._run("rollback", RELEASE)

    def uninstall(self) -> Any:
        return self._run("uninstall", RELEASE, ignore_not_found=True)

    def _run(self, action: str, *arguments: Any, **options: Any) -> Any:
        order = [self._kubeconfig, self._namespace, action, arguments, options]
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, json.dumps(order)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


_PROGRAM = """
import json, sys
from helm_python import Config
kubeconfig, namespace, action, arguments, options = json.loads(sys.argv[1])
config = Config(kubeconfig_path=kubeconfig, namespace=namespace)
print(json.dumps(getattr(config, action)(*arguments, **options)))
"""
