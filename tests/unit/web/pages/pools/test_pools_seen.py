"""What pages of pools say of a management cluster that is away."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from laneway.controllers.ledger.source import LedgerSource
from laneway.controllers.machine_pools.look import Managed, Sizes, supplied
from laneway.core.ledger.ledger import Ledger
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.errors import UnreachableError
from laneway.web.caches import Caches
from laneway.web.management import Judged
from laneway.web.pages.pools import seen
from laneway.web.place import Place
from laneway.web.rendering import Rendering, Texts
from laneway.web.server_state import ServerState
from laneway.web.visit import Site, Visit


async def test_one_server_that_is_away_is_told_once() -> None:
    async with Client(ClusterConfig(Cluster("http://127.0.0.1:1"))) as client:
        caches, server = Caches.of(client), ServerState(client)
        site = Site(caches, LedgerSource(caches), Rendering(Texts()), server)
        visit = Visit(site, cast(Any, None), Place(path="/pools"))
        visit.management.problem = UnreachableError("no answer")
        known = Judged(Managed(), supplied(Ledger(), Sizes()), [])
        assert "no answer" in str(seen.frame(visit, known)["outdated"])
        server.away_since = datetime.now(UTC)  # the page says so above
        assert seen.frame(visit, known)["outdated"] == ""
