"""The webhook and the web interface of a fleet at work, each in a process of its own."""

from __future__ import annotations

import itertools
import os
import re
import ssl
import time
from typing import Any

import aiohttp

from laneway.kube.client import Client
from laneway.kube.config import load
from support.browser import sign_in
from support.busy_fleet import BusyFleet
from support.programs import program
from support.report import ms, percentile
from support.reviews import HOW, PATHS, ask, reviews

REVIEWS_A_SECOND = 50
PAGES = ("/", "/gpus", "/vgpus", "/vgpus?node=node0007", "/nodes", "/nodes/node0007", "/vms")
ROUNDS = 5
_USERS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
_COMMON = ("--health-address", "127.0.0.1:0", "--log-format", "text")


async def allow_everything(client: Client, user: str) -> None:
    """Give a user the rights of an administrator."""
    group = "rbac.authorization.k8s.io"
    body: dict[str, Any] = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    await client.call("POST", _USERS, None, body)


async def webhook(kubeconfig: str, fleet: BusyFleet, seconds: float) -> list[str]:
    """Reviews of new VMs with four vGPUs each: a row of what they take."""
    pki = os.path.join(os.path.dirname(kubeconfig), "pki")
    arguments = (
        *("--kubeconfig", kubeconfig, "--address", "127.0.0.1:0"),
        *("--tls-cert-file", os.path.join(pki, "server.crt")),
        *("--tls-key-file", os.path.join(pki, "server.key")),
        *_COMMON,
    )
    began = time.perf_counter()
    known = "the webhook knows its cluster"
    async with program("laneway", "webhook", *arguments, until=known) as role:
        ready = time.perf_counter() - began
        found = re.search(r"on port (\d+)", role.said)
        assert found is not None
        free = {
            place: [one.name for one in vgpus[:8]]
            for place, vgpus in fleet.free.items()
            if len(vgpus) >= 4
        }
        tls = ssl.create_default_context(cafile=os.path.join(pki, "ca.crt"))
        took: list[float] = []
        kind = {"Content-Type": "application/json"}
        connector = aiohttp.TCPConnector(limit=16, ssl=tls)
        async with aiohttp.ClientSession(connector=connector, headers=kind) as session:
            for path, how in itertools.product(PATHS.values(), HOW):
                bodies = reviews(free, int(seconds * REVIEWS_A_SECOND / 4), how)
                url = f"https://127.0.0.1:{found[1]}{path}"
                took += (await ask(session, url, bodies, REVIEWS_A_SECOND))[0]
        return ["webhook, a review", *_row(ready, took, role.memory(), role.peak())]


async def web(kubeconfig: str) -> list[str]:
    """Pages, one after the other: a row of what they take."""
    arguments = ("--kubeconfig", kubeconfig, "--address", "127.0.0.1:0", *_COMMON)
    began = time.perf_counter()
    known = "the web interface answers on"
    async with program("laneway", "ui", *arguments, until=known) as role:
        ready = time.perf_counter() - began
        found = re.search(r"(127\.0\.0\.1) port (\d+)", role.said)
        assert found is not None
        base = f"http://{found[1]}:{found[2]}"
        browser = await sign_in(base, load(kubeconfig).user.token)
        try:
            for page in PAGES:
                await browser.get(page)
            took = [(await browser.get(page))[0] for _ in range(ROUNDS) for page in PAGES]
        finally:
            await browser.session.close()
        return ["web interface, a page", *_row(ready, took, role.memory(), role.peak())]


def _row(ready: float, took: list[float], memory: float, peak: float) -> list[str]:
    latencies = (ms(percentile(took, at)) for at in (50, 99, 100))
    return [f"{ready:.1f}", *latencies, f"{memory:,.0f}", f"{peak:,.0f}"]
