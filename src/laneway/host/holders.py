"""Who uses a device now: processes that have it open, and the kernel itself.

Taking a device from a driver while a process has it open can wait for that process, for ever and
with locks of the whole PCI core held; so users are looked for first. A device is used through its
nodes in /dev: those of the devices below it in sysfs (graphics, sound, disks, USB), of its IOMMU
group and those of its vGPUs, and NVIDIA's own. The kernel uses disks (file systems, swap, RAID and
LVM on them) and network interfaces (routes, addresses, bridges and VLANs on them).

A process in a container is named by its pod, and by the VM that the pod runs, where the caller
knows the pods of the node: the kubelet names a pod's cgroup by its uid.

One pass over /proc serves any number of devices. Processes come and go during it; who cannot be
looked into at all is reported by `visibility_error`, because no user found is then no answer.
"""

from __future__ import annotations

import errno
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

from laneway.core.kernel.cgroup import container_of
from laneway.core.pci import PciAddress
from laneway.core.situation import Holder
from laneway.core.workload import Workload, ending, process_words
from laneway.host import storage
from laneway.host.attributes import clean, decimal_id, describe
from laneway.host.interface_use import InterfaceUse
from laneway.host.paths import as_address, is_usb_port, real_path
from laneway.host.port import Host

_Key = TypeVar("_Key")

_HOST_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO, the number of the first PID namespace on every Linux kernel."""

_NVIDIA_MINOR = re.compile(r"Device Minor:\s*([0-9]{1,7})")
_NVME_SUBSYSTEMS = "/sys/class/nvme-subsystem"
_NVME_CONTROLLER = re.compile(r"nvme[0-9]+")
_NO_DEVICES = frozenset(
    ("mdev_supported_types", "msi_irqs", "nvidia", "power", "queue", "queues", "statistics")
)
"""Directories with many files and no device."""
_DEEPEST = 24
"""Levels of sysfs below one function; a disk behind an expander has some fifteen."""
_NAMED = 3
"""The most nodes of one process that a text names."""


Workloads = Callable[[str], Workload | None]
"""Which pod has this uid; None where not known."""


def no_workloads(_uid: str) -> Workload | None:
    """Knows no pods, as on a node without Kubernetes."""
    return None


def read_holders(
    host: Host, addresses: Iterable[PciAddress], workloads: Workloads = no_workloads
) -> dict[PciAddress, tuple[Holder, ...]]:
    """The users of each function requested, its vGPU included; functions without one left out."""
    devices = _devices(host, {address: f"/sys/bus/pci/devices/{address}" for address in addresses})
    for address, device in devices.items():
        device.nodes |= _nvidia_nodes(host, address)
    return _users(host, devices, workloads)


def usb_holders(
    host: Host, ports: Iterable[str], workloads: Workloads = no_workloads
) -> dict[str, tuple[Holder, ...]]:
    """The users of USB devices and of what they carry, by port."""
    links = {port: f"/sys/bus/usb/devices/{port}" for port in ports if is_usb_port(port)}
    return _users(host, _devices(host, links), workloads)


def have_ended(host: Host, processes: Iterable[int]) -> bool:
    """Whether any of these processes is there no more, so that a look at its devices is due."""
    return any(not host.exists(f"/proc/{pid}") for pid in processes)


def node_users(host: Host, nodes: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The processes that have each of these nodes of /dev open, as `process 4711 (qemu)`.

    Much less is looked at than for `read_holders`: no device, and nothing that the kernel does.
    """
    users: dict[str, list[str]] = {}
    for pid, opened in _open_nodes(host, frozenset(nodes)):
        for node in opened:
            users.setdefault(node, []).append(f"process {pid} ({_command(host, pid)})")
    return {node: tuple(processes) for node, processes in users.items()}


def visibility_error(host: Host) -> str:
    """Why not all processes can be seen from here; empty when they can."""
    try:
        host.names("/proc/1/fd")
        namespace = host.readlink("/proc/1/ns/pid")
    except OSError as error:
        # Recorded and simulated hosts have no such files, and a kernel may have no namespaces.
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return ""
        return f"the open files of process 1 cannot be read ({describe(error)}): root is needed"
    if namespace != _HOST_PID_NAMESPACE:
        return "Laneway runs in a PID namespace of its own: a pod needs hostPID: true"
    return ""


# ------------------------------------------------------------------------- what belongs to a device


class _Device:
    """What is found below one device: its nodes in /dev, and what the kernel does with it."""

    def __init__(self) -> None:
        self.nodes: set[str] = set()
        self.kernel: list[Holder] = []


def _devices(host: Host, links: dict[_Key, str]) -> dict[_Key, _Device]:
    """The devices that exist, by the same keys."""
    if not links:
        return {}
    disks = [
        (need.path, Holder("swap" if need.use == "swap" else "mount", f"it {need.reason}"))
        for need in storage.needs(host)
    ]
    devices = {}
    network = InterfaceUse(host)
    for key, link in links.items():
        try:
            root = real_path(host, link)
        except OSError:
            continue
        devices[key] = device = _device(host, root, network)
        inside = f"{root}/"
        device.kernel += [holder for path, holder in disks if path.startswith(inside)]
    return devices


def _device(host: Host, root: str, network: InterfaceUse) -> _Device:
    device = _Device()
    for path, names in _directories(host, root):
        above, name = posixpath.split(path)
        kind = posixpath.basename(above)
        if "dev" in names:  # reading `uevent` of a function could wait, and it has no node
            device.nodes |= _node(host, path)
        if "iommu_group" in names:
            device.nodes |= _group_node(host, path)
        if "holders" in names:
            _stack(host, path, device)
        if kind == "nvme" and _NVME_CONTROLLER.fullmatch(name):
            device.nodes |= _shared_namespaces(host, name)
        if kind == "net":
            uses = network.of(name, path)
            device.kernel += [Holder("network", f"its interface {use}") for use in uses]
        elif name == "net" and not names:
            # The directory is made with the first interface and shows those of one namespace.
            text = "its network interface is in another network namespace"
            device.kernel.append(Holder("network", text))
    return device


def _directories(host: Host, root: str) -> Iterator[tuple[str, Collection[str]]]:
    """Every directory of one device with its names; other PCI functions below are their own."""
    todo = [(root, _DEEPEST)]
    while todo:
        path, deeper = todo.pop()
        try:
            entries = host.entries(path)
        except OSError:
            continue  # gone since
        yield path, entries.keys()
        inner = (name for name, is_directory in entries.items() if is_directory)
        todo += [
            (f"{path}/{name}", deeper - 1)
            for name in sorted(inner)
            if deeper and name not in _NO_DEVICES and as_address(name) is None
        ]


def _node(host: Host, path: str) -> set[str]:
    """The device node that the kernel names for a directory of sysfs."""
    try:
        lines = clean(host.read(f"{path}/uevent")).splitlines()
    except OSError:
        return set()
    names = (line.removeprefix("DEVNAME=") for line in lines if line.startswith("DEVNAME="))
    return {f"/dev/{name.removeprefix('/dev/')}" for name in names}


def _group_node(host: Host, path: str) -> set[str]:
    try:
        group = decimal_id(posixpath.basename(host.readlink(f"{path}/iommu_group")))
    except OSError:
        return set()
    return set() if group is None else {f"/dev/vfio/{group}"}


def _nvidia_nodes(host: Host, address: PciAddress) -> set[str]:
    try:
        text = clean(host.read(f"/proc/driver/nvidia/gpus/{address}/information"))
    except OSError:
        return set()
    return {f"/dev/nvidia{match[1]}" for match in _NVIDIA_MINOR.finditer(text)}


def _stack(host: Host, block: str, device: _Device) -> None:
    """What stands on a block device: device mapper and md, however many levels."""
    seen: set[str] = set()
    todo = [block]
    while todo:
        lower = todo.pop()
        with suppress(OSError):
            for name in sorted(host.names(f"{lower}/holders")):
                upper = real_path(host, f"{lower}/holders/{name}")
                if upper not in seen:
                    seen.add(upper)
                    todo.append(upper)
                    device.nodes |= _node(host, upper)
                    text = f"its {posixpath.basename(block)} is part of {_volume(host, upper)}"
                    device.kernel.append(Holder("volume", text))


def _volume(host: Host, path: str) -> str:
    name = posixpath.basename(path)
    try:
        return f"{name} ({clean(host.read(f'{path}/dm/name'))})"
    except OSError:
        return name


def _shared_namespaces(host: Host, controller: str) -> set[str]:
    """Nodes of the namespaces that several controllers may carry: they stand apart from each."""
    nodes: set[str] = set()
    for subsystem in _names(host, _NVME_SUBSYSTEMS):
        members = _names(host, f"{_NVME_SUBSYSTEMS}/{subsystem}")
        if controller in members:
            for name in members:
                if not _NVME_CONTROLLER.fullmatch(name):
                    nodes |= _node(host, f"{_NVME_SUBSYSTEMS}/{subsystem}/{name}")
    return nodes


def _names(host: Host, path: str) -> list[str]:
    try:
        return sorted(host.names(path))
    except OSError:
        return []


# ------------------------------------------------------------------------------------ who uses them


def _users(
    host: Host, devices: dict[_Key, _Device], workloads: Workloads
) -> dict[_Key, tuple[Holder, ...]]:
    open_nodes = _open_nodes(host, frozenset[str]().union(*(d.nodes for d in devices.values())))
    users = {}
    for key, device in devices.items():
        processes = [
            _process(host, pid, nodes, workloads)
            for pid, opened in open_nodes
            if (nodes := sorted(opened & device.nodes))
        ]
        if found := [*processes, *device.kernel]:
            users[key] = tuple(dict.fromkeys(found))
    return users


def _open_nodes(host: Host, wanted: frozenset[str]) -> list[tuple[int, set[str]]]:
    """Processes that have any of these device nodes open, with those they have.

    A node has open files by the ten thousand, and this is asked before every step that takes
    something away, so the loop does no more for each than it must.
    """
    found: list[tuple[int, set[str]]] = []
    if not wanted:
        return found
    for pid in sorted(int(name) for name in _names(host, "/proc") if name.isdecimal()):
        opened = set()
        folder = f"/proc/{pid}/fd"
        try:
            descriptors = host.names(folder)
        except OSError:
            continue
        for descriptor in descriptors:
            try:
                target = host.readlink(f"{folder}/{descriptor}")
            except OSError:
                continue
            # A container may see its /dev below another directory.
            if "/dev/" in target:
                node = f"/dev/{target.removesuffix(' (deleted)').partition('/dev/')[2]}"
                if node in wanted:
                    opened.add(node)
        if opened:
            found.append((pid, opened))
    return found


def _command(host: Host, pid: int) -> str:
    try:
        return clean(host.read(f"/proc/{pid}/comm")) or "unnamed"
    except OSError:
        return "ended meanwhile"


def _process(host: Host, pid: int, nodes: list[str], workloads: Workloads) -> Holder:
    try:
        container = container_of(clean(host.read(f"/proc/{pid}/cgroup")))
    except OSError:
        container = None
    workload = workloads(container.pod) if container else None
    words = process_words(pid, _command(host, pid), workload)
    end = ending(workload) if workload else f"End the process: kill {pid}"
    return Holder("process", f"{words} has {_list(nodes)} open", pid, end)


def _list(nodes: list[str]) -> str:
    more = len(nodes) - _NAMED
    return ", ".join(nodes[:_NAMED]) + (f" and {more} more" if more > 0 else "")
