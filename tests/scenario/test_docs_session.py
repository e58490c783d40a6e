"""The sessions in docs/tutorials/, typed again as they stand there, with what they say comes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.pods import Pods
from support.sessions import DOCS, Terminal, goes, typed

pytestmark = pytest.mark.slow


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    one = Terminal(tmp_path)
    yield one
    one.stop()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal at a cluster without Laneway, on which runs what is installed there."""
    pods = Pods(tmp_path / "cluster", {"node1": "a2", "node2": "plain"})
    try:
        yield Terminal(tmp_path, pods.start())
    finally:
        pods.end()


@pytest.mark.timeout(300)  # A hundred processes one after the other; much slower on a busy machine.
@pytest.mark.parametrize("name", ["gpus.md", "virtual-machines.md"])
def test_a_session_goes_as_it_is_written(name: str, terminal: Terminal) -> None:
    _goes_as_written(name, terminal)


@pytest.mark.timeout(300)  # As above.
def test_a_machine_pool_gets_gpus_as_it_is_written(terminal: Terminal) -> None:
    text = (DOCS / "guest-clusters.md").read_text().partition("\n## The same")[0]
    goes(list(typed(text)), terminal)


@pytest.mark.timeout(300)  # As above.
def test_laneway_is_installed_and_removed_as_it_is_written(cluster: Terminal) -> None:
    _goes_as_written("installation.md", cluster)


def test_a_fleet_in_a_file_is_planned_as_it_is_written(terminal: Terminal) -> None:
    (terminal.folder / "docs").symlink_to(DOCS.parent)
    session = list(typed((DOCS / "planning.md").read_text()))
    assert len(session) > 6
    goes(session, terminal)


def test_the_tour_of_the_readme_goes_as_it_is_written(terminal: Terminal) -> None:
    (terminal.folder / "docs").symlink_to(DOCS.parent)
    terminal.type("laneway up --no-local --data-dir .laneway --simulate a2")
    text = (DOCS.parents[1] / "README.md").read_text()
    tour, plan = (
        list(typed(text.partition(f"## {title}\n")[2].partition("\n## ")[0]))
        for title in ("A short tour", "Plan")
    )
    assert len(tour) > 8
    goes([*tour, *plan], terminal)


def _goes_as_written(name: str, terminal: Terminal) -> None:
    session = list(typed((DOCS / name).read_text()))
    assert len(session) > 25
    goes(session, terminal)
