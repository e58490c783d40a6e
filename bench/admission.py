"""What reviews of virtual machines cost: 500 a second over TLS, with a large cluster to know.

Every review is of a new machine with four vGPUs, of one node by name or of any by their resource
alone, as a real API server asks it: some connections that are kept, a question at a time on each.
They come at their times whether or not the one before was answered, so that waiting counts. The
webhook has one core at most.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import ssl
import tempfile
import time

import aiohttp
from support.children import start
from support.report import arguments, header, ms, percentile, table
from support.reviews import HOW, PATHS, ask, reviews

CONNECTIONS = 16


async def measure(nodes: int, gpus: int, machines: int, seconds: int, rate: int) -> None:
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as directory:
        began = time.perf_counter()
        sizes = (str(nodes), str(gpus), str(machines))
        async with start("webhook", directory, *sizes) as child:
            ready = await child.answer()
            made = time.perf_counter() - began
            tls = ssl.create_default_context(cafile=os.path.join(directory, "pki", "ca.crt"))
            connector = aiohttp.TCPConnector(limit=CONNECTIONS, ssl=tls)
            kind = {"Content-Type": "application/json"}
            async with aiohttp.ClientSession(connector=connector, headers=kind) as session:
                rows = []
                for (name, path), how in itertools.product(PATHS.items(), HOW):
                    url = f"https://127.0.0.1:{ready['port']}{path}"
                    await ask(session, url, reviews(ready["free"], rate, how), rate)
                    before = await child.ask("usage")
                    bodies = reviews(ready["free"], seconds * rate, how)
                    taken, refused = await ask(session, url, bodies, rate)
                    after = await child.ask("usage")
                    rows.append(
                        [
                            name,
                            how,
                            *(ms(percentile(taken, percent)) for percent in (50, 99)),
                            ms(max(taken)),
                            f"{(after['cpu'] - before['cpu']) / seconds:.0%}",
                            f"{after['memory']:.0f}",
                            str(refused),
                        ]
                    )
    title = (
        f"{rate} reviews/s of a machine with 4 vGPUs, {nodes} nodes, {ready['vgpus']:,} vGPUs, "
        f"{machines:,} machines\n"
        f"(made in {made:.1f} s; {ready['bare']:.0f} MB before there was any)"
    )
    head = ["webhook", "vGPUs", "p50 ms", "p99 ms", "worst ms", "CPU", "MB", "refused"]
    table(title, head, rows)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rate", type=int, default=500, help="reviews per second")
    parser.add_argument("--seconds", type=int, default=10, help="per webhook")
    parser.add_argument("--gpus", type=int, default=8, help="of 16 vGPUs, per node")
    asked = parser.parse_args()
    header()
    gc.disable()  # Pauses of the client would count as the webhook's.
    for nodes, machines in ((3, 10), (1000, 5000)):
        asyncio.run(measure(nodes, asked.gpus, machines, asked.seconds, asked.rate))


if __name__ == "__main__":
    main()
