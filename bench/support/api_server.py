"""Process: the embedded API server as `laneway up` has it: TLS, a token, a database on the disk.

    python -m support.api_server DIRECTORY

Says where its kubeconfig is, and then at every line what it has used and done so far.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from laneway.apiserver import kubeconfig
from laneway.apiserver.authn import Authenticator, User
from laneway.apiserver.pki import ensure
from laneway.apiserver.server import ApiServer
from support.children import orders, say
from support.report import resident

_TOKEN = "bench"


class CountingServer(ApiServer):
    """Tells how many requests came."""

    def requests(self) -> int:
        assert self._runner is not None
        assert self._runner.server is not None
        return self._runner.server.requests_count


async def run(directory: str) -> None:
    pki = ensure(os.path.join(directory, "pki"))
    server = CountingServer(
        os.path.join(directory, "state.db"),
        tls=pki.ssl_context(),
        authenticator=Authenticator({_TOKEN: User("bench", ("system:masters",))}),
    )
    await server.start()
    path = os.path.join(directory, "kubeconfig")
    kubeconfig.write(path, server=server.url, ca_pem=pki.ca_pem, token=_TOKEN)
    say(path)
    async for _ in orders():
        say(
            {
                "cpu": time.process_time(),
                "memory": resident(),
                "requests": server.requests(),
            }
        )
    await server.stop()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
