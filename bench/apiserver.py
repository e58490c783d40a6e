"""The embedded API server compared with the real one: kube-apiserver with etcd.

The same client process measures both, one after the other: TLS, a token, and a user whose rights
are a ClusterRole's. Both share this machine's cores with the client, so next to a figure stands the
CPU time that the server needed for each. The real server is that of KUBEBUILDER_ASSETS, or the one
that `make test-realapi` has built; where there is neither, only ours is measured.

A latency is the time from before a patch is sent until a watcher has its event. Memory is resident
memory, of the real server with its etcd. Rates are medians of three parts, after a warm-up.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

import msgspec
from support.api_calls import Call, Caller, Watchers, caller
from support.api_devices import GROUP, PATH, application, creation, stamp, status_patch
from support.api_servers import Server, embedded, find_real, real
from support.report import arguments, header, middle, percentile, table

from laneway.api.crds import crds

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_PARTS = 3
_WARM_UP = 200
_CLIENTS = 8
_READY_SECONDS = 30


class Measured(NamedTuple):
    """One figure of one server, and what it cost that server."""

    what: str
    unit: str
    value: float
    aim: str = ""
    """What the ratio to the real server should be."""
    cpu: float | None = None
    """Milliseconds of each: a write, a list, an event at a watcher."""


async def prepare(server: Server) -> None:
    """Our kinds, and the rights of the user who measures."""
    role = {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]}
    binding = {
        "metadata": {"name": "bench"},
        "roleRef": {"apiGroup": _RBAC.split("/")[2], "kind": "ClusterRole", "name": "bench"},
        "subjects": [{"apiGroup": _RBAC.split("/")[2], "kind": "User", "name": "user"}],
    }
    async with caller(server.admin) as admin:
        await admin.send_all([Call("POST", _CRDS, crd) for crd in crds()], 1)
        rules = {"metadata": {"name": "bench"}, "rules": [role]}
        await admin.send(Call("POST", f"{_RBAC}/clusterroles", rules))
        await admin.send(Call("POST", f"{_RBAC}/clusterrolebindings", binding))
        async with asyncio.timeout(_READY_SECONDS):
            for crd in crds():
                await established(admin, f"{_CRDS}/{crd['metadata']['name']}")


async def established(admin: Caller, path: str) -> None:
    while True:
        found = msgspec.json.decode(await admin.send(Call("GET", path)))
        for condition in found.get("status", {}).get("conditions") or ():
            if (condition["type"], condition["status"]) == ("Established", "True"):
                return
        await asyncio.sleep(0.2)


async def rate(
    server: Server, user: Caller, what: str, calls: list[Call], clients: int = _CLIENTS
) -> Measured:
    part, rates = -(-len(calls) // _PARTS), []
    before = server.cpu()
    for at in range(0, len(calls), part):
        began = time.perf_counter()
        await user.send_all(calls[at : at + part], clients)
        rates.append(len(calls[at : at + part]) / (time.perf_counter() - began))
    cpu = (server.cpu() - before) / len(calls) * 1e3
    return Measured(what, "/s", middle(rates), ">= 0.5", cpu)


async def writes(server: Server, user: Caller, objects: int) -> list[Measured]:
    def of(make: Callable[[int], Call], numbers: Iterable[int]) -> list[Call]:
        return [make(number) for number in numbers]

    part = (objects - _WARM_UP) // 4
    await user.send_all(of(creation, range(_WARM_UP)), _CLIENTS)
    await user.send_all(of(status_patch, range(_WARM_UP)), _CLIENTS)
    await user.send_all(of(application, range(_WARM_UP)), _CLIENTS)
    alone, rest = range(_WARM_UP, _WARM_UP + part), range(_WARM_UP + part, objects)
    return [
        await rate(server, user, "create, 1 client", of(creation, alone), 1),
        await rate(server, user, f"create, {_CLIENTS} clients", of(creation, rest)),
        await rate(server, user, "merge patch of status", of(status_patch, alone)),
        await rate(server, user, "server-side apply", of(application, alone)),
        await rate(server, user, "the same apply again", of(application, alone)),
    ]


async def lists(server: Server, user: Caller, objects: int, runs: int) -> list[Measured]:
    async def pages(size: int = 500) -> None:
        token = ""
        while True:
            where = f"{PATH}?limit={size}" + (f"&continue={token}" if token else "")
            found = msgspec.json.decode(await user.send(Call("GET", where)), type=_List)
            if not (token := found.metadata.token or ""):
                return

    found = []
    for what, call in (
        ("JSON", Call("GET", PATH)),
        ("JSON, gzip", Call("GET", PATH, coding="gzip")),
        ("Table", Call("GET", PATH, accept=_TABLE)),
        ("Table, gzip", Call("GET", PATH, accept=_TABLE, coding="gzip")),
        ("pages of 500", None),
    ):
        times: list[float] = []
        before = 0.0
        for run in range(runs + 1):
            if run == 1:
                before = server.cpu()
            began = time.perf_counter()
            await (user.send(call) if call else pages())
            times.append(time.perf_counter() - began)
        cpu = (server.cpu() - before) / runs * 1e3
        name = f"list of {objects:,}: {what}"
        found.append(Measured(name, "ms", middle(times[1:]) * 1e3, "<= 1", cpu))
    return found


class _Meta(msgspec.Struct):
    token: str | None = msgspec.field(name="continue", default=None)


class _List(msgspec.Struct):
    metadata: _Meta


async def fanout(
    server: Server, user: Caller, watchers: int, events: int, objects: int
) -> list[Measured]:
    found = []
    async with user.watching(PATH, watchers) as crowd:
        for what, count, clients in (
            ("one patch after the other", events // 3, 1),
            (f"{_CLIENTS} clients patch", events, _CLIENTS),
        ):
            await patches(user, crowd, min(20, objects), 1)
            crowd.latencies.clear()
            before, began = server.cpu(), time.perf_counter()
            await patches(user, crowd, min(count, objects), clients)
            took = time.perf_counter() - began
            received = len(crowd.latencies)
            cpu = (server.cpu() - before) / received * 1e3
            title = f"{watchers} watchers, {what}"
            for percent in (50, 99):
                latency = percentile(crowd.latencies, percent) * 1e3
                found.append(Measured(f"{title}: p{percent}", "ms", latency, "<= 1", cpu))
            found.append(Measured(f"{title}: events", "/s", received / took, ">= 1", cpu))
        found.append(Measured("watches cut off by the server", "", crowd.cut_off))
    return found


async def patches(user: Caller, crowd: Watchers, count: int, clients: int) -> None:
    """One client sends a patch when all have seen the one before; several do not wait."""
    target = crowd.delivered
    waiting = iter(range(count))

    async def client() -> None:
        nonlocal target
        for number in waiting:
            target += crowd.count
            await user.send(stamp(number))
            if clients == 1:
                await crowd.until(target)

    await asyncio.gather(*(client() for _ in range(clients)))
    await crowd.until(target)


async def measure(
    start: AbstractAsyncContextManager[Server], objects: int, watchers: int, events: int
) -> tuple[str, list[Measured]]:
    async with start as server:
        await prepare(server)
        found = [Measured("start", "s", server.start, "<= 1")]
        idle = server.memory()
        async with caller(server.user) as user:
            found += await writes(server, user, objects)
            stored = server.memory()
            found += await lists(server, user, objects, 3)
            found += await fanout(server, user, watchers, events, objects)
        for what, size in (
            ("memory, with the CRDs only", idle),
            (f"memory, with {objects:,} objects", stored),
            ("memory, after all of this", server.memory()),
        ):
            found.append(Measured(what, "MB", size, "<= 0.2"))
        return server.name, found


def compare(results: list[tuple[str, list[Measured]]]) -> None:
    """A row for each figure, a column for each server; the ratio is ours to the other's."""
    names = [name for name, _ in results]
    head = ["", *names, *(["ratio", "aim"] if len(names) > 1 else [])]
    head += [f"CPU ms each, {name}" for name in names]
    rows = []
    for same in zip(*(found for _, found in results), strict=True):
        row = [same[0].what, *(f"{shown(one.value)} {one.unit}" for one in same)]
        if len(same) > 1:
            row += [f"{same[0].value / same[1].value:.2f}" if same[0].aim else "", same[0].aim]
        rows.append([*row, *("" if one.cpu is None else shown(one.cpu) for one in same)])
    table("API servers", head, rows)


def shown(value: float) -> str:
    """Three digits say all that a measurement can."""
    digits = 0 if value >= 100 or value == 0 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f}"


async def run(objects: int, watchers: int, events: int) -> None:
    programs = find_real()
    results = []
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as directory:
        results.append(await measure(embedded(directory), objects, watchers, events))
    if programs is None:
        print(
            "no real kube-apiserver here, so only the embedded one is measured: set "
            "KUBEBUILDER_ASSETS, or let `make test-realapi` build one"
        )
    else:
        with tempfile.TemporaryDirectory(prefix="laneway-bench-") as directory:
            results.append(await measure(real(programs, directory), objects, watchers, events))
    compare(results)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--objects", type=int, default=10_000, help="to list (default: 10000)")
    parser.add_argument("--watchers", type=int, default=200, help="at once (default: 200)")
    parser.add_argument("--events", type=int, default=300, help="to all of them (default: 300)")
    options = parser.parse_args()
    header()
    asyncio.run(run(options.objects, options.watchers, options.events))


if __name__ == "__main__":
    main()
