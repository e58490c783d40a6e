"""What an agent says of a GPU for those who plan migrations: its driver and its ECC mode."""

from __future__ import annotations

from laneway.api import CoreNode, SRIOVGPUDevice
from laneway.kube.resource import served

GPU = "node1-000008000"


async def test_driver_and_ecc_mode_of_a_gpu(cluster, simulated):
    host = simulated("a2", "node1")
    await cluster.client.create(served(CoreNode), {"metadata": {"name": "node1"}})
    agent = await cluster.start_agent("node1", host)
    gpu = await cluster.get(SRIOVGPUDevice, GPU)
    assert gpu.status.driver_version == agent.observer.inventory.nvidia_driver != ""
    assert gpu.status.ecc_mode == ""  # nothing has asked the driver yet

    await agent.measuring.measure()
    told = await cluster.until(SRIOVGPUDevice, GPU, lambda one: one.status.ecc_mode == "Enabled")

    driver = gpu.status.driver_version
    group = f"migration-group.laneway.io/25b6-157e-ecc-{driver.partition('.')[0]}"
    node = await cluster.until(CoreNode, "node1", lambda one: group in one.metadata.labels)
    assert node.metadata.labels["laneway.io/nvidia-driver"] == driver

    await agent.measuring.measure()
    await cluster.stop_agent(agent)
    await cluster.start_agent("node1", host)
    again = await cluster.get(SRIOVGPUDevice, GPU)
    assert again.status.ecc_mode == "Enabled"  # what an earlier agent was told holds
    assert again.metadata.resource_version == told.metadata.resource_version
