"""The nodes of machines with GPUs are looked into: they show them, and can work with them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import yaml
from aiohttp import web

from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.events import EventRecorder
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.node_checks.reconciler import CONDITION, NodeChecks, Pace
from laneway.vsphere.node_checks.workload_cluster import ANSWER_BYTES, MOST_NODES
from support.clusterapi import (
    DEPLOYMENTS,
    NAMESPACE,
    SECRETS,
    TEMPLATES,
    VSPHERE_MACHINES,
    Plain,
    deployment,
    template,
)
from support.examples import first

T4 = {"vendorId": 4318, "deviceId": 7864}
QUICK = Pace(waiting=0.1, running=0.05, forbidden=0.1, failed=0.2)


@contextlib.asynccontextmanager
async def checking(world: Any, image: str = "") -> AsyncIterator[None]:
    """A manager leads that looks into nodes."""
    async with Client(load(world.kubeconfig)) as client, asyncio.TaskGroup() as tasks:
        caches = VsphereCaches.of(client)
        recorder = EventRecorder(client, "laneway-manager")
        checks = NodeChecks(client, caches, recorder, image=image, pace=QUICK)
        work = [informer.run() for informer in caches.all.values()]
        running = [tasks.create_task(one) for one in (*work, checks.run())]
        try:
            yield
        finally:
            for task in running:
                task.cancel()


@pytest.fixture
async def machine(world: Any) -> Plain:
    """One that requests two GPUs, before it is on."""
    await world.a_cluster()
    await world.make(TEMPLATES, template("t4", T4, {"vGPUProfile": "grid_t4-8q"}))
    await world.make(DEPLOYMENTS, deployment("gpu", "t4"))
    [found] = await world.machines_of(1)
    await world.clusters.first(lambda one: one.status.get("phase") == "Provisioned")
    return found


def said(**wanted: str) -> Callable[[Plain], bool]:
    def holds(one: Plain) -> bool:
        found = [c for c in one.status.get("conditions", ()) if c["type"] == CONDITION]
        return bool(found) and all(text in found[0][name] for name, text in wanted.items())

    return holds


async def test_a_node_that_shows_its_gpus_and_works_is_ready(world: Any, machine: Plain) -> None:
    async with checking(world):
        await world.provider.powered_on(machine, gpus=2)
        found = await world.infra.first(said(status="True", reason="VectorAddSucceeded"))

    name = machine.metadata.name
    assert said(message=f"node {name} shows 2 nvidia.com/gpu")(found)
    [ready] = [one for one in found.status["conditions"] if one["type"] == CONDITION]
    generation = found.metadata.generation
    assert ready.get("observedGeneration", generation) == generation, "kubectl wait would go on"
    kinds = [one["type"] for one in found.status["conditions"]]
    assert sorted(kinds) == [CONDITION, "PCIDevicesReady"]
    await world.jobs.until(lambda all_: not all_)
    await world.pods.until(lambda all_: not all_)


@pytest.mark.slow
@pytest.mark.parametrize("image", first("", "r.example:5000/add:1"))
async def test_vectors_are_added_by_nvidias_image_or_the_one_that_is_named(
    world: Any, machine: Plain, image: str
) -> None:
    images = set()

    def added(_before: Plain | None, job: Plain | None) -> None:
        if job is not None:
            images.update(one["image"] for one in job.spec["template"]["spec"]["containers"])

    world.jobs.informer.subscribe(added)
    async with checking(world, image):
        await world.provider.powered_on(machine, gpus=2)
        await world.infra.first(said(status="True"))

    [used] = images
    assert used == image or (not image and used.startswith("nvcr.io/nvidia/"))


async def test_a_node_with_too_few_gpus_says_what_to_do(world: Any, machine: Plain) -> None:
    async with checking(world):
        await world.provider.powered_on(machine, gpus=1)
        # Of a node that is just made it may first be said that it shows none.
        words = "shows 1 nvidia.com/gpu, and the VM has 2 GPUs"
        await world.infra.first(said(status="False", reason="NoGPUResource", message=words))
        assert not world.jobs.all

        await world.provider.powered_on(machine, gpus=2)
        await world.infra.first(said(status="True"))


@pytest.mark.slow
async def test_a_machine_that_lost_a_device_is_looked_at_again(world: Any, machine: Plain) -> None:
    async with checking(world):
        await world.provider.powered_on(machine, gpus=2)
        await world.infra.first(said(status="True"))
        [before] = world.infra.all
        kept = [c for c in before.status["conditions"] if c["type"] == CONDITION]
        lost = {**kept[0], "type": "PCIDevicesReady", "status": "False", "reason": "Missing"}
        body = {"status": {"conditions": [*kept, lost]}}
        await world.client.patch(
            VSPHERE_MACHINES, machine.metadata.name, body, NAMESPACE, subresource="status"
        )
        await world.infra.first(said(status="False", reason="DevicesNotReady"))


async def tell_kubeconfig(world: Any, kubeconfig: str) -> None:
    data = {"data": {"value": base64.b64encode(kubeconfig.encode()).decode()}}
    await world.client.patch(SECRETS, "c1-kubeconfig", data, NAMESPACE)


@pytest.mark.parametrize(
    ("kubeconfig", "words"),
    [
        ("users: [{name: a, user: {exec: {command: /bin/touch}}}]", "exec names something outside"),
        *(
            pytest.param(kubeconfig, words, marks=pytest.mark.slow)
            for kubeconfig, words in (
                (
                    "users: [{name: a, user: {tokenFile: /etc/shadow}}]",
                    "tokenFile names something outside",
                ),
                (
                    "clusters: [{name: a, cluster: {certificate-authority: /a}}]",
                    "certificate-authority",
                ),
                ("\t", "not valid YAML"),
                ("", "no current context"),
            )
        ),
    ],
)
async def test_a_kubeconfig_of_no_use_is_reported_and_nothing_is_run(
    world: Any, machine: Plain, kubeconfig: str, words: str
) -> None:
    await tell_kubeconfig(world, kubeconfig)

    async with checking(world):
        await world.provider.powered_on(machine, gpus=2)
        found = await world.infra.first(said(reason="WorkloadClusterUnreachable"))

    assert said(message=words)(found)


async def too_much(request: web.Request) -> web.StreamResponse:
    """An object of a good beginning that never ends."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await answer.write(b" " * 65536)
    return answer


async def too_many(request: web.Request) -> web.Response:
    """Pages without end."""
    assert int(request.query["limit"]) <= 100, "an answer is to stay small"
    nodes = [{"metadata": {"name": "another"}}, 7] * 2500
    return web.json_response({"metadata": {"continue": "more"}, "items": nodes})


async def nothing_more(_request: web.Request) -> web.Response:
    return web.json_response({"metadata": {"continue": "more"}, "items": []})


async def rude(_request: web.Request) -> web.Response:
    status = {"kind": "Status", "code": 500, "message": "\x1b[2Jgone\x00 \u202e"}
    return web.json_response(status, status=500)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (too_much, f"more than the {ANSWER_BYTES} bytes"),
        pytest.param(too_many, f"more than {MOST_NODES} nodes", marks=pytest.mark.slow),
        pytest.param(nothing_more, f"more than {MOST_NODES} nodes", marks=pytest.mark.slow),
        pytest.param(rude, "[2Jgone", marks=pytest.mark.slow),
    ],
)
async def test_a_workload_cluster_that_means_harm_is_reported_and_does_none(
    world: Any, machine: Plain, answer: Any, words: str
) -> None:
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        kubeconfig = {
            "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        }
        secret = await world.client.get(SECRETS, "c1-kubeconfig", NAMESPACE)
        await tell_kubeconfig(world, yaml.safe_dump(kubeconfig))
        async with checking(world):
            await world.provider.powered_on(machine, gpus=2)
            found = await world.infra.first(said(reason="WorkloadClusterUnreachable"))
            assert said(message=words)(found)
            [reported] = [one for one in found.status["conditions"] if one["type"] == CONDITION]
            assert reported["message"].isprintable(), "a terminal would obey it"
            await world.client.patch(SECRETS, "c1-kubeconfig", {"data": secret.data}, NAMESPACE)
            await world.infra.first(said(status="True"))
    finally:
        await runner.cleanup()


@pytest.mark.slow
async def test_a_job_that_fails_is_reported_and_tried_again(world: Any, machine: Plain) -> None:
    name = f"laneway-vector-add-{machine.metadata.name}"
    failed = {
        "type": "Failed",
        "status": "True",
        "reason": "BackoffLimitExceeded",
        "message": "CUDA driver version is insufficient",
        "lastProbeTime": "2026-11-22T00:00:00Z",
        "lastTransitionTime": "2026-11-22T00:00:00Z",
    }
    target = {**failed, "type": "FailureTarget"}
    container = {"name": "a", "image": "a"}
    pod = {"restartPolicy": "Never", "containers": [container]}
    spec = {"suspend": True, "template": {"spec": pod}}
    await world.make(world.jobs_resource, {"metadata": {"name": name}, "spec": spec})
    status = {"status": {"startTime": failed["lastProbeTime"], "conditions": [target, failed]}}
    await world.client.patch(world.jobs_resource, name, status, NAMESPACE, subresource="status")

    async with checking(world):
        await world.provider.powered_on(machine, gpus=2)
        found = await world.infra.first(said(status="False", reason="VectorAddFailed"))
        assert said(message="CUDA driver version is insufficient")(found)
        await world.infra.first(said(status="True"))
