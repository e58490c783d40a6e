"""The web interface of a fleet: 1,000 nodes, 8,000 GPUs, 128,000 vGPUs.

The API server and the interface are processes of their own; this one is the browsers. Pages are
asked for one after the other, with filters, orders and pages that differ, and timed from the
request to the last byte. A change is timed from before its request to the event in the stream of a
page that shows it. Then 200 tabs are open while 20 objects change each second. The first page
counts with all its files, as compressed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import tempfile
import time

from support.browser import Browser, sign_in
from support.programs import Program, program
from support.report import arguments, header, ms, percentile, table

from kapilite.serving import Folder
from kapilite.storage.store import Store
from laneway.api import VGPUDevice
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.resource import served
from laneway.roles.install import install_crds
from support import gpu_fleet

PAGES = (
    "/",
    "/gpus",
    "/gpus?state=enabled&sort=-name",
    "/gpus/node0500-000001000",
    "/vgpus",
    "/vgpus?node=node0500",
    "/vgpus?q=node07&page=3",
    "/vgpus?group=node&sort=-address",
    "/pci",
    "/nodes",
    "/nodes/node0500",
    "/vms",
    "/activity",
)
ROUNDS = 12
CHANGES = 60
TABS, SECONDS, A_SECOND = 200, 20, 20


async def _pages(browser: Browser) -> None:
    rows, all_ = [], []
    for page in PAGES:
        await browser.get(page)
        took = [(await browser.get(page))[0] for _ in range(ROUNDS)]
        size = len((await browser.get(page))[1])
        all_ += took
        rows.append([page, ms(percentile(took, 50)), ms(percentile(took, 95)), f"{size / 1e3:.1f}"])
    rows.append(["all", ms(percentile(all_, 50)), ms(percentile(all_, 95)), ""])
    table("pages (aim: p95 below 100 ms)", ["page", "p50 ms", "p95 ms", "gzip kB"], rows)


async def _first_page(browser: Browser) -> float:
    """All that a browser loads to show the first page, in kB."""
    async with browser.session.get(browser.base, headers={"Accept-Encoding": "identity"}) as answer:
        text = await answer.text()
    total = len((await browser.get("/"))[1])
    for file in dict.fromkeys(re.findall(r'(?:src|href)="(/static/[^"]+)"', text)):
        total += len((await browser.get(file))[1])
    return total / 1e3


async def _changes(browser: Browser, client: Client) -> list[float]:
    """Seconds from a request that changes a vGPU to the event of a page that shows it."""
    vgpus, took = served(VGPUDevice), []
    name = gpu_fleet.vgpu_name(500, 0, 3)
    async with browser.stream("/vgpus?node=node0500") as events:
        await events.get()
        for number in range(CHANGES):
            mark = f"NVIDIA A2-{number}X"
            began = time.perf_counter()
            await client.patch(
                vgpus,
                name,
                {"status": {"configureVGPUTypeName": mark, "vGPUStatus": "vGPUConfigured"}},
                subresource="status",
            )
            while f"A2-{number}X" not in await events.get():
                pass
            took.append(time.perf_counter() - began)
            await asyncio.sleep(random.uniform(0.1, 0.5))
    return took


async def _tabs(browser: Browser, client: Client, ui: Program) -> tuple[float, int]:
    """The share of a core that 200 open tabs take, and how many events they got."""
    vgpus, got = served(VGPUDevice), 0

    async def count(events: asyncio.Queue[str]) -> None:
        nonlocal got
        while True:
            await events.get()
            got += 1

    async with contextlib.AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        counting = []
        for number in range(TABS):
            page = PAGES[number % len(PAGES)].replace("0500", f"{number:04d}")
            events = await stack.enter_async_context(browser.stream(page))
            counting.append(tasks.create_task(count(events)))
        await asyncio.sleep(15)
        got, cpu, began = 0, ui.cpu(), time.perf_counter()
        for number in range(SECONDS * A_SECOND):
            # On nodes that tabs show, so that some of them have something to draw.
            name = gpu_fleet.vgpu_name(random.randrange(TABS), number % 8, number % 16)
            profile = f"NVIDIA A2-{number}X"
            carried = {"configureVGPUTypeName": profile, "vGPUStatus": "vGPUConfigured"}
            status = {"status": carried}
            await client.patch(vgpus, name, status, subresource="status")
            due = began + (number + 1) / A_SECOND
            await asyncio.sleep(max(0, due - time.perf_counter()))
        share = (ui.cpu() - cpu) / (time.perf_counter() - began)
        for task in counting:
            task.cancel()
    return share, got


async def _install(kubeconfig: str) -> None:
    async with Client(load(kubeconfig)) as client:
        await install_crds(client)


async def _measure(nodes: int, gpus: int) -> None:
    header()
    with tempfile.TemporaryDirectory() as data:
        folder = Folder(data)
        serve = ("serve", "--data-dir", data, "--port", "0")
        async with program("kapilite", *serve, until="Stop with Ctrl-C"):
            await _install(folder.kubeconfig)
        store = Store(folder.database)
        count = gpu_fleet.fill(store, nodes, gpus)
        store.close()
        async with contextlib.AsyncExitStack() as stack:
            server = program("kapilite", *serve, until="Stop with Ctrl-C")
            await stack.enter_async_context(server)
            began = time.perf_counter()
            ui = await stack.enter_async_context(
                program(
                    "laneway",
                    "ui",
                    "--kubeconfig",
                    folder.kubeconfig,
                    "--address",
                    "127.0.0.1:0",
                    "--health-address",
                    "127.0.0.1:0",
                    "--log-format",
                    "text",
                    until="the web interface answers on",
                )
            )
            ready = time.perf_counter() - began
            found = re.search(r"(127\.0\.0\.1) port (\d+)", ui.said)
            assert found is not None
            token = load(folder.kubeconfig).user.token
            browser = await sign_in(f"http://{found[1]}:{found[2]}", token)
            stack.push_async_callback(browser.session.close)
            client = await stack.enter_async_context(Client(load(folder.kubeconfig)))
            await _pages(browser)
            took = await _changes(browser, client)
            share, got = await _tabs(browser, client, ui)
            rows = [
                ["ready with all objects", f"{ready:.1f} s", ""],
                [
                    "first page with its files, gzip",
                    f"{await _first_page(browser):.0f} kB",
                    "200 kB",
                ],
                ["change to event, p50", f"{ms(percentile(took, 50))} ms", ""],
                ["change to event, p95", f"{ms(percentile(took, 95))} ms", "300 ms"],
                [f"{TABS} tabs, {A_SECOND} changes/s: share of a core", f"{share:.2f}", "0.50"],
                ["  events sent to them a second", f"{got / SECONDS:.1f}", ""],
                ["memory", f"{ui.memory():.0f} MB", "600 MB"],
            ]
            table(f"the role, {count:,} objects", ["", "measured", "aim"], rows)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--nodes", type=int, default=1000, help="default: 1000")
    parser.add_argument("--gpus", type=int, default=8, help="of each node; default: 8")
    chosen = parser.parse_args()
    asyncio.run(_measure(chosen.nodes, chosen.gpus))


if __name__ == "__main__":
    main()
