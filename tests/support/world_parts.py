"""How the parts of a `World` reach their API server, where it is no fixture `cluster`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from laneway.controllers.metrics import MetricFamilies
from laneway.controllers.timing import Timing
from laneway.core.tracing import Tracer
from laneway.kube.client import Client


@dataclass
class Parts:
    """Clients of the user, of the manager and of KubeVirt, and what they share."""

    client: Client
    own: Client
    kubevirts: Client
    connect: Callable[[], Awaitable[Client]] | None = None
    """Makes a client for each node; only for worlds that start agents themselves."""
    families: MetricFamilies = field(default_factory=MetricFamilies)
    timing: Timing = field(default_factory=Timing)
    tracer: Tracer | None = None
