"""A claim and its VM in one file, when watches have not shown the claim yet."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from laneway.admission import review
from laneway.admission.access import AccessReviews
from laneway.admission.judging import Judging
from laneway.admission.kinds import KINDS
from laneway.admission.metrics import AdmissionMetrics
from laneway.kube.client import Client
from laneway.kube.kubevirt import GROUP
from laneway.kube.resource import Key
from support.reviewing import SILENT, well_formed
from support.reviewing import review as question

GPU, AUDIO = "nvidia.com/GA100_A100", "nvidia.com/AUDIO"
ADDRESS = "0000:08:00.0"
ANNA = "anna"
"""The requester of a review."""


class Late:
    """The webhook, and events that come once it has looked without effect."""

    def __init__(self, cluster: Any) -> None:
        metrics = AdmissionMetrics(CollectorRegistry())
        access = AccessReviews(Client(SILENT), metrics)
        self.judging = Judging(KINDS, cluster.world, access, metrics)

    async def ask(
        self, raw: Any, then: Callable[[], object] | None, *, mutates: bool = False
    ) -> dict[str, Any]:
        """The answer; `then` None says that it is to come without any event."""
        asked = review.read(msgspec.json.encode(question("virtualmachines", new=raw, group=GROUP)))
        judge = self.judging.mutate if mutates else self.judging.validate
        answering = asyncio.create_task(judge(asked))
        await asyncio.sleep(0)  # It has looked, and waits or has answered.
        assert answering.done() == (then is None)
        if then is not None:
            then()
        judged = await answering
        return well_formed(review.write(asked.version, asked.uid, judged.answer), asked.uid)


@pytest.fixture
async def late(cluster: Any) -> Late:
    return Late(cluster)


async def test_a_vm_waits_until_its_claim_is_known(cluster: Any, late: Late) -> None:
    gpu = cluster.pci("n1", ADDRESS, claimed=None)
    raw = cluster.vm(gpu)
    assert (await late.ask(raw, lambda: cluster.claim("n1", ADDRESS, GPU, user=ANNA)))["allowed"]


async def test_a_usb_device_is_waited_for_as_well(cluster: Any, late: Late) -> None:
    raw = cluster.vm(cluster.usb("n1", 11, claimed=None))
    assert (await late.ask(raw, lambda: cluster.usb("n1", 11, claimed=ANNA)))["allowed"]


async def test_a_vgpu_is_waited_for_as_well(cluster: Any, late: Late) -> None:
    vgpu = cluster.vgpu("n1", ADDRESS, ready=False)
    cluster.world.claims.drop(Key("", vgpu))
    asked = await late.ask(cluster.vm(vgpu), lambda: cluster.vgpu("n1", ADDRESS))
    assert asked["allowed"]


async def test_members_come_along_though_the_claim_comes_late(cluster: Any, late: Late) -> None:
    gpu = cluster.pci("n1", ADDRESS, group="5", claimed=None)
    audio = cluster.pci("n1", "0000:08:00.1", AUDIO, group="5", claimed=ANNA, class_id="0403")
    answer = await late.ask(
        cluster.vm(gpu), lambda: cluster.claim("n1", ADDRESS, GPU, user=ANNA), mutates=True
    )
    assert audio in json.dumps(json.loads(base64.b64decode(answer["patch"])))


async def test_who_waits_in_vain_is_refused(cluster: Any, late: Late) -> None:
    raw = cluster.vm(cluster.pci("n1", ADDRESS, claimed=None))
    answer = await late.ask(raw, lambda: None)
    assert "is not claimed" in answer["status"]["message"]


@pytest.mark.parametrize("mutates", [False, True])
async def test_nothing_waits_for_what_needs_no_claim_or_was_there_before(
    cluster: Any, late: Late, mutates: bool
) -> None:
    claimed = cluster.pci("n1", ADDRESS, claimed=ANNA)
    mediated = cluster.vgpu("n1", "0000:08:00.4", framework="mdev")
    disabled = cluster.vgpu("n1", "0000:08:00.5", enabled=False)
    free = ("any", GPU)
    for device in (claimed, mediated, free, (disabled, "nvidia.com/NVIDIA_A2-2Q")):
        await late.ask(cluster.vm(device), None, mutates=mutates)


async def test_what_cannot_be_read_is_mutated_no_more_and_reported_once(
    cluster: Any, late: Late
) -> None:
    odd = cluster.vm()
    odd["spec"]["template"]["spec"]["domain"]["devices"]["hostDevices"] = 7
    answer = await late.ask(odd, None, mutates=True)
    assert answer["allowed"]
    assert "warnings" not in answer
