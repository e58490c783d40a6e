"""`laneway up` as processes that several tests use."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.processes import PROFILE, READY, SPEC, Api, Laneway

Start = Callable[..., Laneway]


@pytest.fixture(scope="module")
def start_for_all() -> Iterator[Start]:
    yield from _starter()


@pytest.fixture
def start() -> Iterator[Start]:
    yield from _starter()


def _starter() -> Iterator[Start]:
    """Starts processes; those that a test leaves running are killed."""
    started: list[Laneway] = []

    def start(*arguments: str) -> Laneway:
        started.append(Laneway(*arguments))
        return started[-1]

    yield start
    for one in started:
        one.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its name must be quoted in a shell."""
    return tmp_path_factory.mktemp("up") / "it's kept here"


@pytest.fixture(scope="module")
def running(start_for_all: Start, data_dir: Path) -> Laneway:
    """A `laneway up` that many tests use; each leaves it as it was."""
    up = start_for_all("up", *SPEC, "--data-dir", str(data_dir))
    up.until(READY)
    return up


@pytest.fixture(scope="module")
def api(running: Laneway, data_dir: Path) -> Api:
    return Api(data_dir)


@pytest.fixture(scope="module")
def stopped_dir(tmp_path_factory: pytest.TempPathFactory, start_for_all: Start) -> Path:
    """The data directory of a clean stop, with a vGPU configured on its simulated host."""
    path = tmp_path_factory.mktemp("stopped") / "data"
    up = start_for_all("up", *SPEC, "--data-dir", str(path))
    up.until(READY)
    Api(path).desired(enabled=True, vGPUTypeName=PROFILE)
    assert up.end() == 0
    return path
