"""Commands of `laneway` as processes, and what they are tried on."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from laneway.api import (
    CoreNode,
    VGPULayout,
    kind_of,
)
from laneway.kube.resource import Resource, served

GPU = "node1-000008000"
TITLE = "node1/0000:08:00.0"
VGPU = "node1-000008004"
Q4, Q8 = "NVIDIA A2-4Q", "NVIDIA A2-8Q"
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, CoreNode)


class Done(NamedTuple):
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Laneway = Callable[..., Awaitable[Done]]


async def started(*arguments: str, kubeconfig: str) -> Process:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KUBE")}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "laneway",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        env=kept | {"KUBECONFIG": kubeconfig, "HOME": "/proc/none", "COLUMNS": "80"},
    )


async def ended(process: Process) -> Done:
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert b"Traceback" not in err, err.decode()
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


async def register(cluster: Any, node: str, **labels: str) -> None:
    """As the kubelet of a node does."""
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}}
    await cluster.client.create(served(CoreNode), body)


async def layout(cluster: Any, name: str, **spec: Any) -> None:
    info = kind_of(VGPULayout)
    body = {"apiVersion": info.api_version, "kind": info.kind, "metadata": {"name": name}}
    await cluster.client.create(served(VGPULayout), {**body, "spec": spec})


def plain(text: str) -> str:
    """Words, however they are aligned."""
    return " ".join(text.split())


async def trial(cluster: Any) -> str:
    """Wait until a command has asked the agents; gives the name of its layout."""
    async with asyncio.timeout(60):
        while not (found := await cluster.names(VGPULayout)):  # noqa: ASYNC110 - which is not known
            await asyncio.sleep(0.01)
    [name] = found
    return str(name)


def shell(kubeconfig: str) -> Laneway:
    """Runs commands against a cluster; `status` is how each must end."""

    async def run(*arguments: str, status: int = 0) -> Done:
        done = await ended(await started(*arguments, kubeconfig=kubeconfig))
        assert done.status == status, done
        return done

    return run
