"""VMs and their instances as caches keep them: what is equal is kept once.

Many VMs are alike in all but their names. Of their annotations only Laneway's are kept, because
others write whole documents there; and not who owns them or waits for their end.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import lru_cache

import msgspec

from laneway.api import ObjectMeta, decode
from laneway.core import keys
from laneway.kube import kubevirt
from laneway.kube.kubevirt import (
    DeviceRequest,
    Devices,
    Domain,
    InstanceSpec,
    Template,
    VirtualMachine,
    VirtualMachineInstance,
)
from laneway.kube.sharing import dictionary, one, parts

_OURS = "devices.harvesterhci.io/laneway-"


def _vm(kind: type[VirtualMachine], raw: bytes | msgspec.Raw) -> VirtualMachine:
    whole = decode(kind, raw)
    spec = whole.spec
    return kind(
        metadata=_metadata(whole.metadata),
        spec=msgspec.structs.replace(
            spec,
            run_strategy=sys.intern(spec.run_strategy),
            template=Template(spec=_spec(spec.template.spec)),
        ),
        status=parts(whole.status),
    )


def _instance(
    kind: type[VirtualMachineInstance], raw: bytes | msgspec.Raw
) -> VirtualMachineInstance:
    whole = decode(kind, raw)
    return kind(
        metadata=_metadata(whole.metadata),
        spec=_spec(whole.spec),
        status=parts(whole.status),
    )


def _metadata(meta: ObjectMeta) -> ObjectMeta:
    notes = {
        key: value
        for key, value in meta.annotations.items()
        if key == keys.ANNOTATION_ALLOCATION or key.startswith(_OURS)
    }
    return ObjectMeta(
        name=meta.name,
        namespace=sys.intern(meta.namespace),
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        creation_timestamp=sys.intern(meta.creation_timestamp),
        deletion_timestamp=meta.deletion_timestamp,
        labels=meta.labels or dictionary(()),
        annotations=notes or dictionary(()),
        finalizers=(),
        owner_references=(),
    )


def _spec(spec: InstanceSpec) -> InstanceSpec:
    domain = spec.domain
    return InstanceSpec(
        domain=Domain(
            devices=_devices(tuple(domain.devices.host_devices), tuple(domain.devices.gpus)),
            cpu=one(domain.cpu),
            memory=one(domain.memory),
            resources=parts(domain.resources),
        ),
        node_selector=dictionary(tuple(spec.node_selector.items())),
        eviction_strategy=sys.intern(spec.eviction_strategy),
    )


@lru_cache(maxsize=1 << 12)
def _devices(host_devices: tuple[DeviceRequest, ...], gpus: tuple[DeviceRequest, ...]) -> Devices:
    return Devices(host_devices=list(host_devices), gpus=list(gpus))


VIRTUAL_MACHINES = replace(kubevirt.VIRTUAL_MACHINES, decoder=_vm)
INSTANCES = replace(kubevirt.INSTANCES, decoder=_instance)
