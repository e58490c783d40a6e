"""What the manager keeps of devices: what its parts read, and what is equal only once."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from laneway.api import PCIDeviceClaim, decode
from laneway.controllers.cluster import light
from laneway.controllers.cluster.caches import Vgpu
from laneway.controllers.cluster.needs import of_claim, of_vgpu
from laneway.controllers.ledger import devices

TIME = "2026-01-01T00:00:00Z"
READY, BOUND, ADVERTISED = (
    {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": TIME}
    for kind in ("Ready", "Bound", "Advertised")
)
HOLDER = {"namespace": "d", "pod": "p", "virtualMachine": "vm-a"}


def stored(spec: Any, status: Any) -> bytes:
    metadata = {
        "name": "n1-000008000",
        "uid": "u1",
        "resourceVersion": "7",
        "generation": 3,
        "labels": {"nodename": "n1"},
        "finalizers": ["keeps/it"],
        "managedFields": [{"manager": "laneway"}],
    }
    return msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status})


def vgpu(**more: Any) -> bytes:
    spec = {"nodeName": "n1", "enabled": True, "vGPUTypeName": "NVIDIA A2-1Q"}
    status = {
        "vGPUStatus": "vGPUConfigured",
        "configureVGPUTypeName": "NVIDIA A2-1Q",
        "framework": "mdev",
        "resourceName": "nvidia.com/NVIDIA_A2-1Q",
        "conditions": [READY, ADVERTISED],
    }
    return stored(spec, status | more)


def claim(*conditions: Any, **more: Any) -> bytes:
    spec = {"address": "0000:08:00.0", "nodeName": "n1", "userName": "anna"}
    status = {
        "resourceName": "r/x",
        "vendorId": "10de",
        "deviceId": "25b6",
        "observedGeneration": 3,
    }
    return stored(spec, {**status, "conditions": conditions, **more})


@pytest.mark.parametrize("more", [{}, {"allocation": HOLDER}, {"conditions": [READY]}])
def test_a_vgpu_reads_as_it_is(more: Any) -> None:
    kept, whole = light.vgpu(Vgpu, vgpu(**more)), decode(Vgpu, vgpu(**more))
    assert devices.of_vgpu(kept) == devices.of_vgpu(whole)
    assert of_vgpu(kept) == of_vgpu(whole)
    assert kept.status.allocation == whole.status.allocation


@pytest.mark.parametrize("more", [{}, {"allocation": HOLDER}])
@pytest.mark.parametrize("conditions", [(), (BOUND,), (READY, BOUND, ADVERTISED)])
def test_a_claim_reads_as_it_is(conditions: Any, more: Any) -> None:
    body = claim(*conditions, **more)
    kept, whole = light.claim(PCIDeviceClaim, body), decode(PCIDeviceClaim, body)
    assert devices.of_claim(kept) == devices.of_claim(whole)
    assert of_claim(kept) == of_claim(whole)
    assert list(kept.metadata.finalizers) == whole.metadata.finalizers
    assert kept.metadata.generation == whole.metadata.generation
    assert kept.status.observed_generation == whole.status.observed_generation


def test_what_was_said_of_a_claim_keeps_its_time_until_it_has_an_answer() -> None:
    [said] = light.claim(PCIDeviceClaim, claim(BOUND)).status.conditions
    assert said.last_transition_time == TIME


@pytest.mark.parametrize(
    ("keep", "kind", "body"),
    [(light.vgpu, Vgpu, vgpu()), (light.claim, PCIDeviceClaim, claim(READY, BOUND, ADVERTISED))],
)
def test_devices_that_are_equal_share_all_but_their_names(
    keep: Any, kind: Any, body: bytes
) -> None:
    later = body.replace(TIME.encode(), b"2026-02-02T00:00:00Z")
    one, other = keep(kind, body), keep(kind, later)
    assert one.status is other.status
    assert one.spec is other.spec
    meta = one.metadata
    own = (one, meta, meta.name, meta.uid, meta.resource_version)
    assert sum(map(sys.getsizeof, own)) < 500


@pytest.mark.parametrize(("keep", "kind"), [(light.vgpu, Vgpu), (light.claim, PCIDeviceClaim)])
@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata": {"name": "x"}}',
        b'{"metadata": {"name": "x", "labels": null}, "spec": null, "status": null}',
        b'{"metadata": {"name": "x"}, "status": {"conditions": null, "more": []}}',
    ],
)
def test_an_odd_device_can_be_read(keep: Any, kind: Any, body: bytes) -> None:
    assert keep(kind, body).metadata.name == "x"
