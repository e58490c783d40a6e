"""The example of a node with a GPU, applied and destroyed as it stands in the documentation."""

from __future__ import annotations

import pytest

from laneway.kube.kubevirt import VIRTUAL_MACHINES
from support.terraform import REPOSITORY, Terraform
from support.worlds import World

EXAMPLE = REPOSITORY / "docs/examples/terraform/gpu-node/main.tf"
NIC, VGPU = "intel.com/I350_GIGABIT_NETWORK_CONNECTION", "nvidia.com/NVIDIA_A2-4Q"


@pytest.mark.timeout(240)
async def test_the_example_of_a_node(world: World, terraform: Terraform) -> None:
    await world.add("node1", "a2")
    await world.make_vm("desktop", strategy="Halted")
    terraform.write(EXAMPLE.read_text(), head=False)
    terraform.env |= {
        "TF_VAR_kubeconfig": terraform.kubeconfig,
        "TF_VAR_node": "node1",
        "TF_VAR_virtual_machine": "default/desktop",
    }
    await terraform.apply()
    # The VM is stopped, so one of each is kept for it.
    assert (await terraform.outputs())["free"] == {VGPU: 1, NIC: 0}
    await terraform.settled()
    await world.run_vm("desktop", on=True)
    await world.running("desktop")
    assert len(await world.opened("desktop")) == 2
    await world.stop_vm("desktop")
    await terraform.destroy()
    vm = await world.client.get(VIRTUAL_MACHINES, "desktop", "default")
    assert vm.spec.template.spec.domain.devices.all == ()
