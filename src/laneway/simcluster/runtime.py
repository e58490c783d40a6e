"""What runs on a simulated node, whatever becomes of the node's kubelet.

As with a real container runtime, a workload goes on while the kubelet is away. It also goes on
while `laneway up` is stopped: what runs and which devices it has open is kept in a file, and the
devices are opened again before anybody looks at the host. A boot of the node is an empty file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence

import msgspec

from kubebasics.files import write_atomically
from laneway.sim.host import SimulatedHost
from laneway.sim.processes import Holder

_PROCESS = "qemu-system-x86"


class RuntimeStateError(Exception):
    """The file of what runs cannot be used; the text says why and what to do."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """The containers of one pod."""

    environment: Mapping[str, Mapping[str, str]]
    """What the kubelet put into each container's environment."""
    opened: Sequence[str] = ()
    """The devices that it has open, by path."""
    exit_code: int | None = None
    """None while it runs."""


class Runtime:
    """The workloads of one node, by the uid of their pod."""

    def __init__(self, host: SimulatedHost, path: str) -> None:
        """Go on with what ran. Raises RuntimeStateError."""
        self._host = host
        self._path = path
        self._workloads = _load(path)
        self._holders: dict[str, list[Holder]] = {}
        self._listeners: list[Callable[[str], None]] = []
        for uid, workload in list(self._workloads.items()):
            if workload.exit_code is None:
                self._resume(uid, workload)

    @property
    def host(self) -> SimulatedHost:
        """The node's hardware."""
        return self._host

    def __contains__(self, uid: str) -> bool:
        return uid in self._workloads

    @property
    def uids(self) -> list[str]:
        """Whose containers there are, ended ones included."""
        return list(self._workloads)

    def subscribe(self, call: Callable[[str], None]) -> None:
        """Call with the uid of a pod whose containers ended by themselves."""
        self._listeners.append(call)

    def unsubscribe(self, call: Callable[[str], None]) -> None:
        """Call no more."""
        self._listeners.remove(call)

    def start(self, uid: str, environment: Mapping[str, Mapping[str, str]]) -> None:
        """Run the containers of a pod, once."""
        if uid not in self._workloads:
            self._put(uid, Workload(environment=environment))

    def get(self, uid: str) -> Workload | None:
        return self._workloads.get(uid)

    def open(self, uid: str, paths: Sequence[str]) -> None:
        """Have a pod's process open devices, all or none. Raises OSError, KeyError."""
        workload = self._workloads[uid]
        self._holders.setdefault(uid, []).extend(self._hold(uid, paths))
        opened = (*workload.opened, *paths)
        self._put(uid, msgspec.structs.replace(workload, opened=opened))

    def exit(self, uid: str, code: int = 0) -> None:
        """The containers of a pod end by themselves; 0 is an end as it should be."""
        workload = self._workloads[uid]
        self._release(uid)
        self._put(uid, msgspec.structs.replace(workload, opened=(), exit_code=code))
        for call in list(self._listeners):
            call(uid)

    def end(self, uid: str) -> None:
        """Stop and remove the containers of a pod, if there are any."""
        self._release(uid)
        if self._workloads.pop(uid, None) is not None:
            self._save()

    def reboot(self) -> None:
        """The node was booted: nothing of before runs any more."""
        for uid in self.uids:
            self.end(uid)

    def _resume(self, uid: str, workload: Workload) -> None:
        try:
            self._holders[uid] = self._hold(uid, workload.opened)
        except OSError:
            # Its device is no longer there: so has its process.
            self._put(uid, msgspec.structs.replace(workload, opened=(), exit_code=1))

    def _hold(self, uid: str, paths: Sequence[str]) -> list[Holder]:
        with contextlib.ExitStack() as undo:
            holders = []
            for path in paths:
                holders.append(holder := self._host.hold(path, _PROCESS, uid))
                undo.callback(holder.release)
            undo.pop_all()
        return holders

    def _release(self, uid: str) -> None:
        for holder in self._holders.pop(uid, ()):
            holder.release()

    def _put(self, uid: str, workload: Workload) -> None:
        self._workloads[uid] = workload
        self._save()

    def _save(self) -> None:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        write_atomically(self._path, msgspec.json.encode(self._workloads))


def _load(path: str) -> dict[str, Workload]:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, Workload])
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError:
        raise RuntimeStateError(
            f"{path} is damaged: restore the file, or delete it, and the pods of the node end"
        ) from None
    except OSError as error:
        raise RuntimeStateError(f"cannot read {path}: {error.strerror}; check the file") from None
