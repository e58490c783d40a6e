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
from collections import Counter
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from kapilite.authn import Authenticator, User
from kapilite.authn.authenticator import Handler
from kapilite.authorization.attributes import from_request
from kapilite.credentials import kubeconfig
from kapilite.credentials.pki import ensure
from kapilite.server import ApiServer
from kapilite.storage.store import Store
from support import in_cluster
from support.children import orders, say
from support.memory import resident

_MEASURED = "bench-measured"
_TOKENS = {
    "bench-admin": User("admin", groups=("system:masters",)),
    "bench-user": User("user"),
    _MEASURED: User("measured", groups=("system:masters",)),
}


class CountingServer(ApiServer):
    """Tells which requests came, and how much it has answered."""

    def __init__(self, path: str, **options: Any) -> None:
        super().__init__(path, **options)
        self.requests = Counter[str]()
        """By verb and resource."""
        self.measured = 0
        """Those of the user who is measured."""
        self._writers: list[AbstractStreamWriter] = []

    @property
    def sent(self) -> int:
        """Bytes of all answers, those of watches that go on included."""
        return sum(writer.output_size for writer in self._writers)

    async def _application(self, store: Store) -> web.Application:
        application = await super()._application(store)

        @web.middleware
        async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
            found = from_request(
                request.method, request.rel_url.raw_path, request.query, User("bench")
            )
            what = "/".join(filter(None, (found.resource or found.path, found.subresource)))
            self.requests[f"{found.verb} {what}"] += 1
            self._writers.append(request.writer)
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
    in_cluster.write(path, server.url, pki.ca_pem, "bench-admin")
    say(path)
    async for _ in orders():
        say(
            {
                "cpu": time.process_time(),
                "memory": resident(),
                "requests": server.requests.total(),
                "measured": server.measured,
                "by_kind": server.requests,
                "sent": server.sent,
            }
        )
    await server.stop()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
