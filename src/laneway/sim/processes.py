"""Simulated processes: what /proc shows of those that hold a device open."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from laneway.sim.tree import Tree

_FIRST_PID = 2001
_FIRST_FD = 3


class Processes:
    """The processes of a host besides process 1. Not locked: its host serialises access."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._next = _FIRST_PID

    def start(self, name: str, files: Iterable[str], pod: str = "") -> int:
        """A process that has these files open, given as what its `fd` links say. Returns its id.

        `pod`: the uid of the pod whose container it runs in; empty for a process of the node.
        """
        pid, self._next = self._next, self._next + 1
        home = f"/proc/{pid}"
        arguments = f"/usr/bin/{name}\0"
        # The kernel keeps 15 bytes of a name, and tools cannot tell more.
        short = name.encode()[:15]
        self._tree.put(f"{home}/comm", short + b"\n")
        self._tree.put(f"{home}/cmdline", arguments.encode())
        self._tree.put(f"{home}/stat", b"%d (%b) S 1 %d %d 0 -1\n" % (pid, short, pid, pid))
        self._tree.put(f"{home}/cgroup", _cgroup(pod).encode())
        self._tree.mkdir(f"{home}/fd")
        for number, target in enumerate(files, _FIRST_FD):
            self._tree.put(f"{home}/fd/{number}", target)
        return pid

    def end(self, pid: int) -> None:
        self._tree.discard(f"/proc/{pid}")


def _cgroup(pod: str) -> str:
    """As the kubelet and containerd name it, with systemd as the cgroup driver."""
    if not pod:
        return "0::/system.slice/qemu.service\n"
    uid, container = pod.replace("-", "_"), hashlib.sha256(pod.encode()).hexdigest()
    return f"0::/kubepods.slice/kubepods-pod{uid}.slice/cri-containerd-{container}.scope\n"


class Holder:
    """A process that holds a device, as a VM does, until it is released."""

    def __init__(self, pid: int, name: str, release: Callable[[], None]) -> None:
        self.pid = pid
        self.name = name
        self._release = release

    def release(self) -> None:
        """End the process; a process that waits in the kernel for the device goes on."""
        self._release()
