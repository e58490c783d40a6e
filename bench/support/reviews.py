"""Reviews of new VMs with four vGPUs each, as an API server asks for them."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import aiohttp
import msgspec

from support.webhook import machine

PATHS = {"validation": "/v1/webhook/validation", "mutation": "/v1/webhook/mutation"}
HOW = ("by name", "by resource")


def reviews(free: dict[str, list[str]], count: int, how: str) -> list[bytes]:
    luck = random.Random(7)
    places = sorted(free)
    made = []
    for number in range(count):
        place = luck.choice(places)
        chosen = luck.sample(free[place], 4) if how == "by name" else [f"gpu-{n}" for n in range(4)]
        vm = machine(f"new-{number}", place.partition(" ")[2], chosen)
        request = {
            "uid": f"{number:036d}",
            "kind": {"group": "kubevirt.io", "version": "v1", "kind": "VirtualMachine"},
            "resource": {"group": "kubevirt.io", "version": "v1", "resource": "virtualmachines"},
            "name": vm["metadata"]["name"],
            "namespace": "default",
            "operation": "CREATE",
            "userInfo": {"username": "anna", "groups": ["system:authenticated"]},
            "object": vm,
            "oldObject": None,
            "dryRun": False,
        }
        made.append(
            msgspec.json.encode(
                {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
            )
        )
    return made


async def ask(
    session: aiohttp.ClientSession, url: str, bodies: list[bytes], rate: int
) -> tuple[list[float], int]:
    """How long each took from its time on, and how many were refused."""
    refused = 0
    taken: list[float] = []
    began = time.perf_counter()

    async def one(number: int, body: bytes) -> None:
        nonlocal refused
        due = began + number / rate
        await asyncio.sleep(due - time.perf_counter())
        async with session.post(url, data=body) as response:
            answer: Any = msgspec.json.decode(await response.read())
        taken.append(time.perf_counter() - due)
        refused += not answer["response"]["allowed"]

    async with asyncio.TaskGroup() as tasks:
        for number, body in enumerate(bodies):
            tasks.create_task(one(number, body))
    return taken, refused
