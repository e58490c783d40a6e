"""Simulated guests: Jobs run where their GPUs are, and never where there are none."""

from __future__ import annotations

from typing import Any

from support.clusterapi import DEPLOYMENTS, NAMESPACE, TEMPLATES, deployment, template

T4 = {"vendorId": 4318, "deviceId": 7864}


def job(name: str, gpus: int) -> dict[str, Any]:
    container = {
        "name": "cuda",
        "image": "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda11.7.1-ubuntu20.04",
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
    }
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"name": name}, "spec": {"template": {"spec": spec}}}


def done(name: str) -> Any:
    def holds(found: list[Any]) -> bool:
        return any(
            one.metadata.name == name
            and one.status.get("succeeded") == 1
            and any(c["type"] == "Complete" for c in one.status.get("conditions", ()))
            for one in found
        )

    return holds


async def test_a_job_gets_its_gpu_and_one_that_wants_more_waits(world: Any) -> None:
    await world.a_cluster()
    await world.make(TEMPLATES, template("t4", T4))
    await world.make(DEPLOYMENTS, deployment("gpu", "t4"))
    [infra] = await world.machines_of(1)
    await world.make(world.jobs_resource, job("two", 2))
    await world.make(world.jobs_resource, job("one", 1))
    assert not done("one")(world.jobs.all)

    await world.provider.powered_on(infra, gpus=1)

    await world.jobs.until(done("one"))
    assert not done("two")(world.jobs.all)
    pod = await world.pods.until(
        lambda all_: any(one.status.get("phase") == "Succeeded" for one in all_)
    )
    assert {one.spec.get("nodeName") for one in pod} == {infra.metadata.name, None}

    await world.provider.powered_on(infra, gpus=2)
    await world.jobs.until(done("two"))


async def test_pods_go_with_their_node(world: Any) -> None:
    await world.a_cluster()
    await world.make(TEMPLATES, template("t4", T4))
    await world.make(DEPLOYMENTS, deployment("gpu", "t4"))
    [infra] = await world.machines_of(1)
    await world.provider.powered_on(infra, gpus=1)
    spec = {"containers": [{"name": "a", "image": "a"}], "restartPolicy": "Always"}
    await world.make(world.pods_resource, {"metadata": {"name": "stays"}, "spec": spec})
    await world.pods.until(lambda all_: [p.status.get("phase") for p in all_] == ["Running"])

    await world.client.delete(DEPLOYMENTS, "gpu", NAMESPACE)

    await world.pods.until(lambda all_: not all_)
