"""Fixtures for pytest: a fresh Kubernetes API for each test, within milliseconds.

They cost nothing where no test requests them. Each process of pytest-xdist has its own servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    # What imports a server is imported where a test requests one.
    from kapilite.testing import Cluster, Clusters, Manifest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "kapilite_manifests",
        "files and folders of manifests (definitions above all) that every cluster begins with",
        type="paths",
        default=[],
    )


@pytest.fixture(scope="session")
def kapilite_manifests(pytestconfig: pytest.Config) -> Sequence[Manifest]:
    """What every cluster begins with: those of the setting. Override it to compute them."""
    found: Sequence[Manifest] = pytestconfig.getini("kapilite_manifests")
    return found


@pytest.fixture(scope="session")
def kapilite_clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """Starts clusters, for tests that need several or their own contents."""
    from kapilite.testing import Clusters  # noqa: PLC0415 - see above

    clusters = Clusters(tmp_path_factory.mktemp("kapilite"))
    yield clusters
    clusters.close()


@pytest.fixture(scope="session")
def kapilite_contents(kapilite_clusters: Clusters, kapilite_manifests: Sequence[Manifest]) -> bytes:
    """What a cluster holds once the manifests are applied: made once."""
    return kapilite_clusters.prepare(kapilite_manifests)


@pytest.fixture
def kapilite_cluster(kapilite_clusters: Clusters, kapilite_contents: bytes) -> Iterator[Cluster]:
    """A cluster of its own, as its administrator reaches it."""
    with kapilite_clusters.start(kapilite_contents) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kapilite_shared_cluster(
    kapilite_clusters: Clusters, kapilite_contents: bytes
) -> Iterator[Cluster]:
    """One cluster for all tests of a session, which keep out of each other's way."""
    with kapilite_clusters.start(kapilite_contents) as cluster:
        yield cluster
