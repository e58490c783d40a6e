"""`laneway manager` as a process, alongside a Laneway that is up."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes import SECONDS, Laneway, environment

READY = "Laneway is ready."
SERVING = re.compile(r"serving health and metrics on 127\.0\.0\.1 port ([0-9]+)")


def _failure(*arguments: str, status: int = 1) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "laneway", "manager", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env=environment(),
    )
    assert (done.returncode, done.stdout) == (status, ""), done
    return done.stderr


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of a Laneway that is up, with a simulated cluster."""
    path = tmp_path_factory.mktemp("up")
    options = (
        "--no-local",
        "--simulate",
        "plain",
        "--port",
        "0",
        "--ui-port",
        "0",
        "--data-dir",
        str(path),
    )
    up = Laneway("up", *options)
    up.until(READY)
    yield path
    up.end()


def _fetch(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def _start(data: Path, *arguments: str) -> tuple[Laneway, str]:
    """A manager that knows its cluster, and where it serves."""
    kubeconfig = str(data / "kubeconfig")
    options = ("--kubeconfig", kubeconfig, "--health-address", "127.0.0.1:0", *arguments)
    manager = Laneway("manager", *options)
    reported = SERVING.search(manager.until("serving health"))
    assert reported is not None
    manager.until("the manager knows its cluster")
    return manager, f"http://127.0.0.1:{reported[1]}"


def test_a_manager_leads_tells_of_itself_and_stops_cleanly(data: Path) -> None:
    manager, url = _start(data, "--namespace", "default")
    assert _fetch(f"{url}/healthz") == (200, "ok\n")
    assert _fetch(f"{url}/readyz") == (200, "ok\n")
    manager.until("leading: ")
    assert "laneway_manager_leading 1.0" in _fetch(f"{url}/metrics")[1]
    assert manager.end(signal.SIGTERM) == 0
    assert any("is released" in line for line in manager.lines)
    assert not any("Traceback" in line for line in manager.lines)


@pytest.mark.slow
def test_alongside_laneway_up_it_stands_by(data: Path) -> None:
    manager, url = _start(data)
    assert _fetch(f"{url}/readyz") == (200, "ok\n")
    assert "laneway_manager_leading 0.0" in _fetch(f"{url}/metrics")[1]
    assert manager.end(signal.SIGTERM) == 0


@pytest.mark.slow
def test_called_with_what_cannot_work_it_says_so(tmp_path: Path) -> None:
    assert "cannot be a namespace" in _failure("--namespace", "A_B")
    assert "must be HOST:PORT" in _failure("--health-address", "here", status=2)
    missing = str(tmp_path / "missing")
    assert f"{missing}: cannot be read" in _failure("--kubeconfig", missing)
