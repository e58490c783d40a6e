"""What a command says when a signal ends it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import click
import pytest
from aiohttp import web

from kubebasics.serving.listening import listening
from laneway.api import SRIOVGPUDevice, to_builtins
from laneway.changes.writing import Change, Waiting, applied
from laneway.cli import interrupts
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.connection import ask
from laneway.cli.progress import Printer
from laneway.kube.client import Client
from laneway.kube.resource import served
from laneway.views.answers import of_gpu
from laneway.views.gpus import Gpu

PATH = "/apis/devices.harvesterhci.io/v1beta1/sriovgpudevices"


def _config(folder: Path, port: int) -> str:
    path = folder / "config"
    path.write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: c}}]\n"
        f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n"
    )
    return str(path)


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_a_command_that_is_interrupted_tells_what_that_means(
    number: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work(_: Client) -> None:
        os.kill(os.getpid(), number)
        await asyncio.Event().wait()

    with pytest.raises(click.Abort):
        ask(work, ClusterChoice(_config(tmp_path, 1)), ". Run it\nagain.")

    assert capsys.readouterr().err == "laneway: interrupted. Run it again.\n"


def test_an_interruption_does_not_leave_a_refused_change_requested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unused_tcp_port: int
) -> None:
    ready = {"type": "Ready", "status": "False", "reason": "DeviceInUse", "observedGeneration": 2}
    stored = {
        "metadata": {"name": "gpu", "generation": 2},
        "spec": {"address": "0000:08:00.0", "nodeName": "node1", "enabled": False},
        "status": {"conditions": [ready]},
    }
    patches = []

    async def listed(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [stored]})

    async def patched(request: web.Request) -> web.Response:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(20):
            await asyncio.sleep(0)  # The command sees the signal before it sees the answer.
        patches.append(await request.json())
        return web.json_response(stored)

    async def work(client: Client) -> None:
        app = web.Application()
        app.add_routes([web.get(PATH, listed), web.patch(f"{PATH}/gpu", patched)])
        gpu = served(SRIOVGPUDevice).decode(to_builtins(stored))
        change = Change(
            resource=served(SRIOVGPUDevice),
            plural="sriovgpudevice",
            name="gpu",
            gpu=Gpu(device=gpu),
            before={"enabled": True},
        )

        async def write() -> Any:
            return gpu

        async def look() -> Gpu:
            return change.gpu

        async with listening(app, "127.0.0.1", unused_tcp_port):
            waiting = Waiting(30, False, look)
            await applied(client, change, write, of_gpu, waiting=waiting, listener=Printer())

    with pytest.raises(click.Abort):
        ask(work, ClusterChoice(_config(tmp_path, unused_tcp_port)))

    assert [one["value"] for one in patches[0]] == [2, True]
    assert "interrupted. It was refused; SRIOVGPUDevice gpu is as before" in (
        capsys.readouterr().err
    )
