"""Nodes of which nothing is known, because their agents do not report.

An agent that works has a pod that is ready, on a node of which Kubernetes hears. What an agent said
last stays on its objects when it does not, so a holder would seem to have a device for as long as
the agent is silent. A silence that lasts is therefore a gap of its node.

Kubernetes says only after a while that it hears nothing of a node, so the gap begins before that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from laneway.api import Condition, find_condition
from laneway.web.caches import Caches
from laneway.web.history.store import Silence
from laneway.web.standing import answering

LASTING_MS = 30_000
"""An agent that reports again sooner, as one that is replaced, leaves no gap."""
SETTLED_MS = 10_000
"""So long an agent reports before all that it has to say has arrived."""
UNHEARD_MS = 60_000
"""Kubernetes waits for the heartbeat of a node for 40 or 50 s before it says that there is none."""


def silent(caches: Caches, now: int) -> Mapping[str, int]:
    """Nodes whose agents once reported and do not now, and since when, in milliseconds."""
    report = answering(caches)
    pods = {one.spec.node_name: one for one in caches.agents.store}
    found = {}
    for marker in caches.device_nodes.store:
        name = marker.metadata.name
        if not marker.status.conditions:
            continue
        node, pod = caches.nodes.store.get(name), pods.get(name)
        heard = find_condition(node.status.conditions, "Ready") if node is not None else None
        if heard is not None and heard.status == "Unknown":
            found[name] = _since(heard, now) - UNHEARD_MS
        elif name not in report:
            ready = find_condition(pod.status.conditions, "Ready") if pod is not None else None
            found[name] = now if ready is None or ready.status == "True" else _since(ready, now)
    return found


def _since(condition: Condition, now: int) -> int:
    try:
        at = int(datetime.fromisoformat(condition.last_transition_time).timestamp() * 1000)
    except (ValueError, OverflowError):
        return now
    return min(now, at)


class Silences:
    """Which silences last. Times are milliseconds since 1970."""

    def __init__(self) -> None:
        self._from = 0
        self._silent: dict[str, int] = {}
        """Since when each node is silent, also for a moment."""
        self._told: dict[str, int] = {}
        self._back: dict[str, int] = {}

    def begin(self, now: int) -> None:
        """Nothing is known of what was before."""
        self._from = now
        self._silent, self._told, self._back = {}, {}, {}

    def since(self, node: str) -> int | None:
        """From when on nothing is known of a node; None for one that is observed."""
        return self._told.get(node)

    def look(self, now: int, silent: Mapping[str, int]) -> Iterator[Silence]:
        """What begins and ends, by who is silent now."""
        for node, at in silent.items():
            self._back.pop(node, None)
            since = self._silent.setdefault(node, max(at, self._from))
            if node not in self._told and now - since >= LASTING_MS:
                self._told[node] = since
                yield Silence(since, node)
        for node in self._silent.keys() - silent.keys():
            if node in self._told and now - self._back.setdefault(node, now) < SETTLED_MS:
                continue
            if self._told.pop(node, None) is not None:
                yield Silence(now, node, ends=True)
            self._back.pop(node, None)
            del self._silent[node]
