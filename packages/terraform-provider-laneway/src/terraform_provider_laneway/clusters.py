"""The clusters that the provider talks to, for the threads in which Terraform calls it.

All of them share one event loop, which runs in a thread of its own, and one client for each
cluster: credentials are fetched once and connections are kept.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from laneway.kube import config
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig

R = TypeVar("R")
Work = Callable[[Client], Coroutine[Any, Any, R]]


class Choice(NamedTuple):
    """A cluster, as a kubeconfig names it."""

    kubeconfig: str | None = None
    """None: $KUBECONFIG, ~/.kube/config, or the service account of the pod."""
    context: str | None = None
    """None: the current one."""

    def load(self) -> ClusterConfig:
        """Raises ConfigError."""
        return config.load(self.kubeconfig, self.context)


class Clusters:
    """Runs requests; may be called from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._clients: dict[Choice, Client] = {}
        # A daemon: Terraform ends the process, and nothing has to be put in order then.
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def ask(self, choice: Choice, work: Work[R]) -> R:
        """What `work` answers with a client of the cluster. Raises what `work` does, KubeError."""

        async def asked() -> R:
            return await work(await self.client(choice))

        return self.run(asked())

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """The answer of something that runs in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def client(self, choice: Choice) -> Client:
        """The client of a cluster, which stays open. Only in the loop. Raises ConfigError."""
        if (found := self._clients.get(choice)) is None:
            found = Client(
                choice.load(), user_agent="terraform-provider-laneway", connect_delays=()
            )
            self._clients[choice] = await found.__aenter__()
        return found
