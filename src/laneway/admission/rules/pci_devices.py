"""PCIDevices, which their agents make and delete: with one goes the claim that it owns.

Of a GPU users say whom it serves; of any other device there is nothing to be said.
"""

from __future__ import annotations

from laneway.admission.rules import workloads
from laneway.admission.rules.common import Case, Findings, Parts, rules
from laneway.admission.world import World
from laneway.api import PCIDevice
from laneway.core import keys, names
from laneway.core.refusals import DeviceClaimed, NoGpu, ResourceNameInvalid


def _node_of(device: PCIDevice, _world: World) -> str:
    return device.status.node_name


def _update(case: Case[PCIDevice], old: PCIDevice, new: PCIDevice) -> Findings:
    before = old.metadata.annotations.get(keys.ANNOTATION_RESOURCE_NAME, "")
    after = new.metadata.annotations.get(keys.ANNOTATION_RESOURCE_NAME, "")
    if after not in ("", before) and not names.is_resource_name(after):
        yield ResourceNameInvalid(after, f"PCIDevice {case.name}").words
    if new.spec.workload not in ("", old.spec.workload) and not _is_whole_gpu(old):
        yield NoGpu(case.name)
        return
    yield from workloads.changed(case, old, new, old.status.node_name)


def _is_whole_gpu(device: PCIDevice) -> bool:
    return workloads.vendor(device) is not None and not device.status.physical_function


def _delete(case: Case[PCIDevice], _old: PCIDevice) -> Findings:
    if case.world.claims.get(case.name) is not None:
        yield DeviceClaimed(case.name)
    else:
        yield f"While the device is in the node, the agent creates pcidevice {case.name} again."


RULES = rules(Parts(node_of=_node_of, update=_update, delete=_delete))
