"""What a user of vCenter does, with pyVmomi alone: for looking at a simulator from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyVim.task import WaitForTask
from pyVmomi import vim, vmodl

Pci = vim.vm.device.VirtualPCIPassthrough
T4 = (0x10DE, 0x1EB8)
H100 = (0x10DE, 0x2330)


class Client:
    """A connection, and the clones, devices and power that tests want of it."""

    def __init__(self, instance: vim.ServiceInstance) -> None:
        self.instance = instance
        self.content = instance.RetrieveContent()

    def at(self, path: str) -> Any:
        return self.content.searchIndex.FindByInventoryPath(f"/DC0/{path}")

    def clone(
        self,
        name: str,
        template: str = "ubuntu-with-t4",
        *,
        cluster: str = "DC0_C0",
        host: str = "",
        **config: Any,
    ) -> Any:
        source = self.at(f"vm/{template}")
        pool = self.at(f"host/{cluster}").resourcePool
        place = vim.vm.RelocateSpec(pool=pool, host=self.host(host) if host else None)
        spec = vim.vm.CloneSpec(
            location=place,
            powerOn=False,
            template=False,
            config=vim.vm.ConfigSpec(**{"memoryReservationLockedToMax": True} | config),
        )
        return self.done(source.CloneVM_Task(source.parent, name, spec))

    def host(self, name: str) -> Any:
        view = self.content.viewManager.CreateContainerView(
            self.content.rootFolder, [vim.HostSystem], True
        )
        return next(host for host in view.view if host.name == name)

    @staticmethod
    def done(task: Any) -> Any:
        WaitForTask(task)
        return task.info.result

    def machine(self, name: str, *devices: Any, **more: Any) -> Any:
        """A VM with just these devices, off."""
        vm = self.clone(name, "DC0_C0_RP0_VM0", **more)
        if devices:
            self.reconfigure(vm, *devices)
        return vm

    def reconfigure(self, vm: Any, *devices: Any, **more: Any) -> None:
        changes = [vim.vm.device.VirtualDeviceSpec(operation="add", device=d) for d in devices]
        self.done(vm.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=changes, **more)))

    def on(self, vm: Any) -> str:
        """The host on which it is started."""
        self.done(vm.PowerOnVM_Task(None))
        return str(vm.runtime.host.name)


def vgpu(profile: str, key: int = -200) -> Any:
    return Pci(key=key, backing=Pci.VmiopBackingInfo(vgpu=profile))


def whole(ids: tuple[int, int] = T4, label: str = "", key: int = -200) -> Any:
    allowed = [Pci.AllowedDevice(vendorId=ids[0], deviceId=ids[1])]
    return Pci(key=key, backing=Pci.DynamicBackingInfo(allowedDevice=allowed, customLabel=label))


def attached(vm: Any) -> list[Any]:
    return [device for device in vm.config.hardware.device if isinstance(device, Pci)]


def options(**values: str) -> list[Any]:
    return [
        vim.option.OptionValue(key=f"pciPassthru.{key}", value=value)
        for key, value in values.items()
    ]


class Listener:
    """Follows one property by the property collector."""

    def __init__(self, client: Client, obj: Any, path: str) -> None:
        query = vmodl.query.PropertyCollector
        self._collector = client.content.propertyCollector.CreatePropertyCollector()
        self._collector.CreateFilter(
            query.FilterSpec(
                objectSet=[query.ObjectSpec(obj=obj)],
                propSet=[query.PropertySpec(type=type(obj), pathSet=[path])],
            ),
            partialUpdates=False,
        )
        self.again()

    def again(self) -> None:
        """From what it is now."""
        self._version = self._collector.WaitForUpdatesEx("", None).version

    def until(self, holds: Callable[[Any], bool]) -> Any:
        wait = vmodl.query.PropertyCollector.WaitOptions(maxWaitSeconds=30)
        while True:
            news = self._collector.WaitForUpdatesEx(self._version, wait)
            assert news is not None, "nothing was told within half a minute"
            self._version = news.version
            for update in news.filterSet[0].objectSet:
                for change in update.changeSet:
                    if holds(change.val):
                        return change.val
