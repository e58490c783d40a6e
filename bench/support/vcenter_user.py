"""Who uses a vCenter by pyVmomi alone: one connection, each task waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyVim.connect import Disconnect, SmartConnect
from pyVim.task import WaitForTask
from pyVmomi import vim

from support.vsphere_site import T4, TEMPLATE

if TYPE_CHECKING:
    from support.vcenter import Simulator

_Passthrough = vim.vm.device.VirtualPCIPassthrough


class User:
    """Makes machines with a T4 in the first cluster."""

    def __init__(self, instance: Any) -> None:
        search = instance.RetrieveContent().searchIndex
        self._template = search.FindByInventoryPath(f"/DC0/vm/{TEMPLATE}")
        self._folder = self._template.parent
        self._pool = search.FindByInventoryPath("/DC0/host/DC0_C0").resourcePool

    def made(self, name: str) -> Any:
        """A machine that is off."""
        spec = vim.vm.CloneSpec(
            location=vim.vm.RelocateSpec(pool=self._pool),
            powerOn=False,
            template=False,
            config=vim.vm.ConfigSpec(memoryReservationLockedToMax=True),
        )
        vm = self.done(self._template.CloneVM_Task(self._folder, name, spec))
        backing = _Passthrough.DynamicBackingInfo(allowedDevice=[_Passthrough.AllowedDevice(**T4)])
        add = vim.vm.device.VirtualDeviceSpec(
            operation="add", device=_Passthrough(key=-100, backing=backing)
        )
        self.done(vm.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[add])))
        return vm

    @staticmethod
    def done(task: Any) -> Any:
        """What came of a task."""
        WaitForTask(task)
        return task.info.result


@contextmanager
def user(simulator: Simulator) -> Iterator[User]:
    instance = SmartConnect(
        host=simulator.host,
        port=simulator.port,
        user=simulator.user,
        pwd=simulator.password,
        disableSslCertValidation=True,
    )
    try:
        yield User(instance)
    finally:
        Disconnect(instance)
        instance._stub.DropConnections()  # noqa: SLF001 - a log-out leaves them open
