"""How a user of a device is named to people, everywhere: the VM first, the process last."""

from __future__ import annotations

from typing import NamedTuple


class Workload(NamedTuple):
    """A VM and the pod that it runs in, as far as they are known; one of them is."""

    namespace: str
    pod: str
    vm: str = ""
    """Empty for a pod that runs none."""

    def __str__(self) -> str:
        """`VM desks/ann (pod desks/virt-launcher-ann-x7)`; empty where neither is known."""
        return _words(self, "")


def process_words(pid: int, command: str, workload: Workload | None) -> str:
    """`VM desks/ann (pod desks/virt-launcher-ann-x7, process 2008 qemu-system-x86)`."""
    if workload is None:
        return f"process {pid} ({command})"
    return _words(workload, f"process {pid} {command}")


def ending(workload: Workload, *, runs: bool = True) -> str:
    """How to take a device from a VM or pod. A VM that is only stopped keeps it reserved."""
    namespace, pod, vm = workload
    if not vm:
        return f"Delete the pod: kubectl delete pod {pod} -n {namespace}"
    restart = " and restart it" if runs else ""
    edit = f"kubectl edit vm {vm} -n {namespace}"
    return f"Delete the VM, or remove the device from it{restart}: {edit}"


def _words(workload: Workload, process: str) -> str:
    namespace, pod, vm = workload
    names = [f"pod {namespace}/{pod}"] if pod else []
    if vm:
        names.insert(0, f"VM {namespace}/{vm}")
    if process:
        names.append(process)
    first, *rest = names or [""]
    return f"{first} ({', '.join(rest)})" if rest else first
