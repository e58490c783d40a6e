"""What a hostile user, and callers without credentials, cost everybody else.

`laneway up` with one simulated host runs in a process of its own, started with a soft limit of 256
open files. Alice has claimed a device. During each attack a neighbour, Bob, creates VMs in dry
runs: one with a vGPU, which is to be accepted, and one with Alice's device, which is to be refused.
The table shows how long Bob waits for each answer, and which answers he gets. Everything goes over
the loopback interface; every attack ends by itself after `--seconds`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import msgspec
import yaml
from support.report import arguments, header, ms, percentile, table

NODE = "sim-a2-vfio-1"
DEVICE = f"{NODE}-000004001"
FILES = 256
MACHINES = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines"
GROUP = "/apis/devices.harvesterhci.io/v1beta1"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/laneway-validator"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
PATIENCE = 60.0


class Site(NamedTuple):
    """A running `laneway up`."""

    server: str
    webhook: str
    health: str
    token: str
    resource: str
    """By which Alice's device is requested."""
    log: str
    directory: str


def text_of(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def kilobytes(path: str) -> float:
    return os.path.getsize(path) / 1e3


def headers(site: Site, user: str = "") -> dict[str, str]:
    return {"Authorization": f"Bearer {site.token}"} | ({"Impersonate-User": user} if user else {})


def machine(name: str, devices: list[dict[str, str]], strategy: str = "Halted") -> dict[str, Any]:
    domain = {"devices": {"hostDevices": devices}, "memory": {"guest": "2Gi"}}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runStrategy": strategy, "template": {"spec": {"domain": domain}}},
    }


def large(name: str, count: int, called: str = "nvidia.com/X-{}") -> dict[str, Any]:
    return machine(
        name, [{"name": f"gpu-{n}", "deviceName": called.format(n)} for n in range(count)]
    )


def review(body: dict[str, Any], user: str) -> bytes:
    request = {
        "uid": "1",
        "kind": {"group": "kubevirt.io", "version": "v1", "kind": "VirtualMachine"},
        "resource": {"group": "kubevirt.io", "version": "v1", "resource": "virtualmachines"},
        "name": "x",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": body,
    }
    about = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return msgspec.json.encode(about)


@contextlib.asynccontextmanager
async def running(directory: str) -> AsyncIterator[Site]:
    """Start it, have Alice claim the device, and let Bob write VMs."""

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, resource.getrlimit(7)[1]))

    log = os.path.join(directory, "log")
    data = os.path.join(directory, "data")
    command = [
        "-m",
        "laneway",
        "up",
        "--data-dir",
        data,
        "--no-local",
        "--port",
        "0",
        "--ui-port",
        "0",
    ]
    out = os.open(log, os.O_WRONLY | os.O_CREAT)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        "--simulate",
        "a2-vfio",
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=out,
        preexec_fn=few_files,
    )
    os.close(out)
    try:
        yield await prepared(directory, data, log)
    finally:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 30)
        except TimeoutError:
            process.kill()
            await process.wait()


async def prepared(directory: str, data: str, log: str) -> Site:
    health = ""
    for _ in range(600):
        text = text_of(log)
        if "/metrics" in text:
            health = next(word for word in text.split() if word.endswith("/metrics"))
            break
        await asyncio.sleep(0.1)
    config = yaml.safe_load(text_of(os.path.join(data, "kubeconfig")))
    server = config["clusters"][0]["cluster"]["server"]
    site = Site(server, "", health, config["users"][0]["user"]["token"], "", log, directory)
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["create", "get", "list", "update"]}]
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "people"}}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "people"}
    people = [{"kind": "User", "name": one} for one in ("alice", "bob", "mallory")]
    async with session() as http:
        await made(
            http, site, f"{ROLES}/clusterroles", kind | {"kind": "ClusterRole", "rules": rules}
        )
        binding = kind | {"kind": "ClusterRoleBinding", "roleRef": ref, "subjects": people}
        await made(http, site, f"{ROLES}/clusterrolebindings", binding)
        claim = {
            "apiVersion": "devices.harvesterhci.io/v1beta1",
            "kind": "PCIDeviceClaim",
            "metadata": {"name": DEVICE},
            "spec": {"address": "0000:04:00.1", "nodeName": NODE},
        }
        await made(http, site, f"{GROUP}/pcideviceclaims", claim, "alice")
        async with http.get(f"{server}{HOOKS}", headers=headers(site)) as answer:
            url = (await answer.json())["webhooks"][0]["clientConfig"]["url"]
        for _ in range(100):
            async with http.get(
                f"{server}{GROUP}/pcidevices/{DEVICE}", headers=headers(site)
            ) as it:
                called = (await it.json())["status"].get("resourceName", "")
            async with http.get(
                f"{server}{GROUP}/pcideviceclaims/{DEVICE}", headers=headers(site)
            ) as it:
                if (await it.json()).get("status", {}).get("resourceName"):
                    break
            await asyncio.sleep(0.1)
    parts = urlsplit(url)
    return site._replace(webhook=f"{parts.scheme}://{parts.netloc}", resource=called)


def session() -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(ssl=False, limit=0)
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    return aiohttp.ClientSession(connector=connector, timeout=timeout)


async def made(
    http: aiohttp.ClientSession, site: Site, path: str, body: Any, user: str = ""
) -> tuple[int, str]:
    kind = {"Content-Type": "application/json"}
    async with http.post(
        f"{site.server}{path}", json=body, headers=headers(site, user) | kind
    ) as it:
        return it.status, (await it.text())


async def ask(site: Site, name: str, devices: list[dict[str, str]]) -> tuple[str, float]:
    """What becomes of a VM of Bob's, on a connection of his own, and after how long."""
    began = time.perf_counter()
    try:
        async with session() as http:
            path = f"{MACHINES}?dryRun=All"
            status, _ = await made(http, site, path, machine(name, devices), "bob")
            answer = str(status)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        answer = type(error).__name__
    return answer, time.perf_counter() - began


async def probe(site: Site) -> tuple[str, float]:
    began = time.perf_counter()
    try:
        async with session() as http, http.get(site.health.replace("metrics", "readyz")) as it:
            return str(it.status), time.perf_counter() - began
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return type(error).__name__, time.perf_counter() - began


Attack = Callable[[Site, float], Coroutine[Any, Any, str]]


async def quiet(_: Site, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return ""


async def large_machines(site: Site, seconds: float) -> str:
    """25 at a time, each with 9,500 host devices, by a user who may create VMs."""
    body = msgspec.json.encode(large("large", 9500, "nvidia.com/x"))
    head = headers(site, "mallory") | {"Content-Type": "application/json"}

    async def post(http: aiohttp.ClientSession) -> str:
        async with http.post(f"{site.server}{MACHINES}?dryRun=All", data=body, headers=head) as it:
            await it.read()
            return str(it.status)

    return await several(25, seconds, post)


async def large_reviews(site: Site, seconds: float) -> str:
    """Four at a time, each of 7.7 MB, sent to the webhook without authentication."""
    body = review(large("large", 150_000, "nvidia.com/x"), "bob")
    return await reviews(site, seconds, body, 4)


async def fitting_reviews(site: Site, seconds: float) -> str:
    """The same as large as they may be, in Bob's name, on 100 connections."""
    body = review(large("large", 60_000, "nvidia.com/x"), "bob")
    return await reviews(site, seconds, body, 100)


async def reviews(site: Site, seconds: float, body: bytes, count: int) -> str:
    async def post(http: aiohttp.ClientSession) -> str:
        head = {"Content-Type": "application/json"}
        async with http.post(
            f"{site.webhook}/v1/webhook/validation", data=body, headers=head
        ) as it:
            await it.read()
            return str(it.status)

    return await several(count, seconds, post)


async def several(
    count: int, seconds: float, post: Callable[[aiohttp.ClientSession], Coroutine[Any, Any, str]]
) -> str:
    answers: Counter[str] = Counter()
    end = time.monotonic() + seconds

    async def one() -> None:
        async with session() as http:
            while time.monotonic() < end:
                try:
                    async with asyncio.timeout_at(asyncio.get_running_loop().time() + PATIENCE):
                        answers[await post(http)] += 1
                except (aiohttp.ClientError, OSError, TimeoutError) as error:
                    answers[type(error).__name__] += 1
                    await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(one())
    return ", ".join(f"{number} x {what}" for what, number in answers.most_common(3))


def half_open(which: str) -> Attack:
    async def attack(site: Site, seconds: float) -> str:
        """Connections with half a header each, opened again when the server closes them."""
        url = urlsplit(getattr(site, which))
        context = None
        if url.scheme == "https":
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        opened = closed = 0

        async def one() -> None:
            nonlocal opened, closed
            while True:
                try:
                    reader, writer = await asyncio.open_connection(
                        url.hostname, url.port, ssl=context
                    )
                    opened += 1
                    writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\nX-Half: ")
                    await reader.read()
                    writer.close()
                except OSError:
                    pass
                closed += 1
                await asyncio.sleep(0.5)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
                for _ in range(140):
                    tasks.create_task(one())
        return f"{opened} opened, {closed} closed"

    return attack


ATTACKS: dict[str, Attack] = {
    "none": quiet,
    "25 x VM with 9,500 devices": large_machines,
    "4 x 7.7 MB review": large_reviews,
    "100 x 3 MB review": fitting_reviews,
    "140 half-open, API server": half_open("server"),
    "140 half-open, webhook": half_open("webhook"),
    "140 half-open, metrics": half_open("health"),
}


async def measure(site: Site, name: str, attack: Attack, seconds: float) -> list[str]:
    logged = kilobytes(site.log)
    running = asyncio.create_task(attack(site, seconds))
    await asyncio.sleep(min(2.0, seconds / 3))
    free: list[tuple[str, float]] = []
    taken: list[tuple[str, float]] = []
    probes: list[tuple[str, float]] = []
    number = 0
    while not running.done() or not free:
        number += 1
        free.append(await ask(site, f"free-{number}", []))
        device = [{"name": DEVICE, "deviceName": site.resource}]
        taken.append(await ask(site, f"taken-{number}", device))
        probes.append(await probe(site))
    outcome = await running
    waits = [wait for _, wait in (*free, *taken)]
    return [
        name,
        *(ms(percentile(waits, percent)) for percent in (50, 100)),
        reported(free),
        reported(taken),
        f"{reported(probes)} {ms(max(wait for _, wait in probes))}",
        f"{kilobytes(site.log) - logged:,.1f}",
        outcome,
    ]


def reported(answers: list[tuple[str, float]]) -> str:
    return " ".join(
        f"{what}:{number}" for what, number in Counter(one for one, _ in answers).items()
    )


async def main_async(seconds: float, only: str) -> None:
    rows = []
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as directory:
        async with running(directory) as site:
            for name, attack in ATTACKS.items():
                if only in name:
                    rows.append(await measure(site, name, attack, seconds))
                    await asyncio.sleep(1)
    head = [
        "attack",
        "p50 ms",
        "worst ms",
        "no device",
        "Alice's",
        "readyz, ms",
        "log kB",
        "attacker",
    ]
    table("What Bob sees (201 and 403 are right)", head, rows)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=12, help="of each attack")
    parser.add_argument("--only", default="", help="attacks whose name has this in it")
    asked = parser.parse_args()
    header()
    asyncio.run(main_async(asked.seconds, asked.only))


if __name__ == "__main__":
    main()
