"""The clusters that the provider talks to, for the threads in which Terraform calls it.

All of them share one event loop, which runs in a thread of its own, and one client for each
cluster: credentials are fetched once and connections are kept.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, NamedTuple, TypeVar

from laneway.changes.errors import UnfinishedError
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
        self._running: set[Future[Any]] = set()
        # A daemon: Terraform ends the process, and nothing has to be put in order then.
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def ask(self, choice: Choice, work: Work[R]) -> R:
        """What `work` answers with a client of the cluster. Raises what `work` does, KubeError."""

        async def asked() -> R:
            return await work(await self.client(choice))

        return self.run(asked())

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """The answer of something that runs in the loop. Raises UnfinishedError when stopped."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._running.add(future)
        try:
            return future.result()
        except CancelledError:
            raise UnfinishedError("interrupted", "What was accepted goes on") from None
        finally:
            self._running.discard(future)

    def stop(self) -> None:
        """End all that runs now; Terraform does not wait for it any longer."""
        for future in tuple(self._running):
            future.cancel()

    async def client(self, choice: Choice) -> Client:
        """The client of a cluster, which stays open. Only in the loop. Raises ConfigError."""
        if (found := self._clients.get(choice)) is None:
            found = Client(
                choice.load(), user_agent="terraform-provider-laneway", connect_delays=()
            )
            self._clients[choice] = await found.__aenter__()
        return found
