"""Devices as a role keeps them that reads all of them: what is equal is kept once.

Of a hundred thousand objects most is said by their neighbours too: all functions of a GPU have the
same labels, the same profiles and, made at the same time, the same conditions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import msgspec

from laneway.api import PCIDevice, PCIDeviceClaim, SRIOVGPUDevice, VGPUDevice, decode
from laneway.kube.resource import served
from laneway.kube.sharing import metadata, parts

D = TypeVar("D", PCIDevice, PCIDeviceClaim, VGPUDevice, SRIOVGPUDevice)


def _device(kind: type[D], raw: bytes | msgspec.Raw) -> D:
    whole = decode(kind, raw)
    return kind(
        metadata=metadata(whole.metadata),
        spec=parts(whole.spec),
        status=parts(whole.status, "uuid", "gpu_uuid"),
    )


PCI_DEVICES = replace(served(PCIDevice), decoder=_device)
PCI_CLAIMS = replace(served(PCIDeviceClaim), decoder=_device)
VGPUS = replace(served(VGPUDevice), decoder=_device)
GPUS = replace(served(SRIOVGPUDevice), decoder=_device)
