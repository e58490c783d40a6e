"""Process: the embedded API server as `laneway up` has it: TLS, a token, a database on the disk.

    python -m support.api_server DIRECTORY

Says where its kubeconfig is, and then at every line what it has used and done so far. Next to that
file lie another one ending in `.user`, of a user whom no role allows anything yet, and one ending
in `.measured`, of a user who may do everything and whose requests are counted apart.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from aiohttp import web

from kapilite.authn import Authenticator, User
from kapilite.authn.authenticator import Handler
from kapilite.credentials import kubeconfig
from kapilite.credentials.pki import ensure
from kapilite.server import ApiServer
from kapilite.storage.store import Store
from support.children import orders, say
from support.report import resident

_MEASURED = "bench-measured"
_TOKENS = {
    "bench-admin": User("admin", groups=("system:masters",)),
    "bench-user": User("user"),
    _MEASURED: User("measured", groups=("system:masters",)),
}


class CountingServer(ApiServer):
    """Tells how many requests came."""

    requests = 0
    measured = 0
    """Those of the user who is measured."""

    async def _application(self, store: Store) -> web.Application:
        application = await super()._application(store)

        @web.middleware
        async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
            self.requests += 1
            self.measured += request.headers.get("Authorization") == f"Bearer {_MEASURED}"
            return await handler(request)

        application.middlewares.append(count)
        return application


async def run(directory: str) -> None:
    pki = ensure(os.path.join(directory, "pki"))
    server = CountingServer(
        os.path.join(directory, "state.db"),
        tls=pki.ssl_context(),
        authenticator=Authenticator(_TOKENS),
    )
    await server.start()
    path = os.path.join(directory, "kubeconfig")
    for token, file in zip(_TOKENS, (path, f"{path}.user", f"{path}.measured"), strict=True):
        kubeconfig.write(file, server=server.url, ca_pem=pki.ca_pem, token=token)
    say(path)
    async for _ in orders():
        say(
            {
                "cpu": time.process_time(),
                "memory": resident(),
                "requests": server.requests,
                "measured": server.measured,
            }
        )
    await server.stop()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
