"""What an agent counts, for Prometheus.

One set of metric families serves every agent of a process (`laneway up` runs several), told apart
by the label `node`.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from laneway.core import census
from laneway.core.inventory import Inventory


class MetricFamilies:
    """The metric families of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.scan_seconds = Histogram(
            "laneway_scan_seconds",
            "Duration of one scan of the host.",
            ["node"],
            registry=registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
        )
        self.devices = Gauge(
            "laneway_devices",
            "Devices found by the last scan.",
            ["node", "kind"],
            registry=registry,
        )
        self.scan_errors = Gauge(
            "laneway_scan_errors",
            "Devices, or parts of them, that the last scan could not read.",
            ["node"],
            registry=registry,
        )
        self.uevents = Counter(
            "laneway_uevents_total",
            "Kernel events received.",
            ["node", "subsystem"],
            registry=registry,
        )
        self.writes = Counter(
            "laneway_api_writes_total",
            "Objects written to the API server.",
            ["node", "verb", "kind"],
            registry=registry,
        )
        self.operations = Histogram(
            "laneway_operation_seconds",
            "Duration of wishes carried out on hardware, from the look at it to the last step.",
            ["node", "operation", "result"],
            registry=registry,
            buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180),
        )
        self.failures = Counter(
            "laneway_failures_total",
            "What kept wishes from being fulfilled, by reason.",
            ["node", "reason"],
            registry=registry,
        )
        self.gpus = Gauge(
            "laneway_gpus",
            "NVIDIA GPUs that can have virtual functions, by state.",
            ["node", "state"],
            registry=registry,
        )
        self.vfs = Gauge(
            "laneway_virtual_functions",
            "Virtual functions, by kind of their card and by state.",
            ["node", "kind", "state"],
            registry=registry,
        )
        self.vgpus = Gauge(
            "laneway_vgpus",
            "vGPUs that exist, by profile.",
            ["node", "profile"],
            registry=registry,
        )


class AgentMetrics:
    """The metrics of one node."""

    def __init__(self, families: MetricFamilies, node: str) -> None:
        self._families = families
        self._node = node
        self._profiles: set[str] = set()
        """Every profile that there was a vGPU of."""

    def scanned(self, seconds: float, inventory: Inventory) -> None:
        """One scan is complete."""
        families, node = self._families, self._node
        families.scan_seconds.labels(node).observe(seconds)
        families.scan_errors.labels(node).set(len(inventory.errors))
        for kind, count in (
            ("pci", len(inventory.functions)),
            ("usb", len(inventory.usb)),
            ("vgpu-function", len(inventory.vgpus)),
            ("vgpu", sum(vgpu.configured is not None for vgpu in inventory.vgpus)),
        ):
            families.devices.labels(node, kind).set(count)
        for state, count in census.gpus(inventory).items():
            families.gpus.labels(node, state).set(count)
        for of_vf, count in census.vfs(inventory).items():
            families.vfs.labels(node, *of_vf).set(count)
        vgpus = census.vgpus(inventory, self._profiles)
        self._profiles.update(vgpus)
        for profile, count in vgpus.items():
            families.vgpus.labels(node, profile).set(count)

    def uevent(self, subsystem: str) -> None:
        """One kernel event arrived."""
        self._families.uevents.labels(self._node, subsystem).inc()

    def wrote(self, verb: str, kind: str) -> None:
        """One write to the API server succeeded."""
        self._families.writes.labels(self._node, verb, kind).inc()

    def operation(self, operation: str, result: str, seconds: float) -> None:
        """A plan ended: `done` or `failed`."""
        self._families.operations.labels(self._node, operation, result).observe(seconds)

    def failed(self, reason: str) -> None:
        """A wish was refused, or failed."""
        self._families.failures.labels(self._node, reason).inc()
