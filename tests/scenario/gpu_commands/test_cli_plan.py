"""`laneway plan` about a live cluster, and what real agents then make of it."""

from __future__ import annotations

import json
from typing import Any

from laneway.api import VGPULayout
from laneway.kube.resource import served
from support.commands import Laneway, register
from support.layouts import carried, settled


async def test_a_recommended_layout_gives_its_vgpus_once_it_is_applied(
    cluster: Any, simulated: Any, laneway: Laneway
) -> None:
    host = simulated("l40s", "node1")
    await register(cluster, "node1")
    await cluster.start_agent("node1", host)

    planned = await laneway("plan", "layout", "L40S-24Q=3", "L40S-8Q=2", "-o", "json")

    layouts = json.loads(planned.out)["items"]
    assert len(layouts) == 2
    for layout in layouts:
        await cluster.client.create(served(VGPULayout), layout)
    for layout in layouts:
        await settled(cluster, layout["metadata"]["name"], "Done")
    assert carried(host) == {"NVIDIA L40S-24Q": 3, "NVIDIA L40S-8Q": 2}


async def test_gpus_are_divided_as_a_recommended_layout_says(
    cluster: Any, simulated: Any, laneway: Laneway
) -> None:
    host = simulated("a100", "node1")
    await register(cluster, "node1")
    await cluster.start_agent("node1", host)

    wanted = {"A100-1-5C": 3, "A100-3-20C": 1, "A100-20C": 2}
    asked = (f"{name}={count}" for name, count in wanted.items())
    planned = await laneway("plan", "layout", *asked, "-o", "json")

    layouts = json.loads(planned.out)["items"]
    assert sorted(one["spec"]["mode"] for one in layouts) == ["MIGBacked", "SameSize"]
    for layout in layouts:
        await cluster.client.create(served(VGPULayout), layout)
    for layout in layouts:
        await settled(cluster, layout["metadata"]["name"], "Done")
    assert {name.rpartition(" ")[2]: count for name, count in carried(host).items()} == wanted
