"""The ECC mode of each GPU, which `nvidia-smi` alone tells and the GPU's object shows.

It comes with what is measured anyway, so nothing is asked for it. A question without an answer
changes nothing: what the driver told last holds until it tells something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from laneway.controllers.measuring.metrics import Measurements
from laneway.core.pci import PciAddress


class EccModes:
    """What the driver of one node told last."""

    def __init__(self) -> None:
        self._modes: Mapping[PciAddress, str] = {}
        self._subscribers: list[Callable[[PciAddress], None]] = []

    def subscribe(self, changed: Callable[[PciAddress], None]) -> None:
        """`changed` is called with each GPU whose mode is another one now."""
        self._subscribers.append(changed)

    def of(self, gpu: PciAddress) -> str:
        """`Enabled` or `Disabled`; empty: it is unknown."""
        return self._modes.get(gpu, "")

    def measured(self, measurements: Measurements) -> None:
        """Take what was measured."""
        if not measurements.gpus:
            return
        before = self._modes
        self._modes = {one.address: one.ecc for one in measurements.gpus if one.ecc}
        for gpu, mode in self._modes.items():
            if before.get(gpu, "") != mode:
                for changed in self._subscribers:
                    changed(gpu)
