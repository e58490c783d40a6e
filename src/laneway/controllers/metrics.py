"""What an agent counts, for Prometheus.

One set of metric families serves every agent of a process (`laneway up` runs several),
distinguished by the label `node`. What is counted as it happens is counted at once; what there is
of devices is counted when it is scraped, so that no change of a device waits for its own
statistics. A profile that was once counted stays, with nothing in it: a number that goes away looks
like one that is not collected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from laneway.controllers.measuring.metrics import MeasurementCollector, Measurements, Reports
from laneway.core import census
from laneway.core.fleet.fragmentation import by_profile, score
from laneway.core.inventory import Inventory

Sample = tuple[tuple[str, ...], float]
"""Values of the labels after the node, and a number."""

DesiredVgpus = Callable[[], dict[str, str]]
"""Profiles of the vGPUs that objects request, by address of their function."""


class AllocationCounts(NamedTuple):
    """What became of the devices of one resource."""

    offered: int = 0
    healthy: int = 0
    allocated: int = 0
    registrations: int = 0
    """How often the kubelet has taken the resource's plugin."""
    refused: int = 0
    """How often it requested devices and was refused."""


AllocationCountsOf = Callable[[], dict[str, AllocationCounts]]
"""What there is for pods, by resource."""


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
            "Duration of changes of the hardware, from the observation to the last step.",
            ["node", "operation", "result"],
            registry=registry,
            buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180),
        )
        self.restored = Gauge(
            "laneway_restored_seconds",
            "Seconds from an agent's start until it had restored its node; missing before.",
            ["node"],
            registry=registry,
        )
        self.failures = Counter(
            "laneway_failures_total",
            "Failed or refused changes, by reason.",
            ["node", "reason"],
            registry=registry,
        )
        self.devices = DeviceCollector()
        registry.register(self.devices)
        self.allocated = AllocationCollector()
        registry.register(self.allocated)
        self.measured = MeasurementCollector()
        registry.register(self.measured)


class DeviceCollector(Collector):
    """Counts the devices of every node when it is asked."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[Inventory, DesiredVgpus]] = {}
        self._seen: set[tuple[str, str, tuple[str, ...]]] = set()
        """Every profile that was counted: metric, node, labels."""

    def put(self, node: str, inventory: Inventory, desired_states: DesiredVgpus) -> None:
        """From now on a node has these devices."""
        self._nodes[node] = inventory, desired_states

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing that another collector could have."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, (text, labels, count) in _DEVICES.items():
            family = GaugeMetricFamily(name, text, labels=["node", *labels])
            for node, (inventory, desired_states) in self._nodes.items():
                for values, number in self._complete(
                    name, node, count(inventory, desired_states())
                ):
                    family.add_metric([node, *values], number)
            yield family

    def _complete(self, name: str, node: str, found: Iterable[Sample]) -> Iterable[Sample]:
        """With nothing in what is no more."""
        numbers = dict(found)
        self._seen.update((name, node, values) for values in numbers)
        gone = {values for of, on, values in self._seen if (of, on) == (name, node)} - set(numbers)
        return *numbers.items(), *((values, 0) for values in sorted(gone))


class AllocationCollector(Collector):
    """Counts what the kubelet of every node may allocate, when it is scraped."""

    def __init__(self) -> None:
        self._nodes: dict[str, AllocationCountsOf] = {}
        self._seen: set[tuple[str, str]] = set()
        """Every resource that was counted, with its node."""

    def put(self, node: str, allocated: AllocationCountsOf) -> None:
        """From now on a node is asked so."""
        self._nodes[node] = allocated

    def describe(self) -> Iterable[Metric]:
        """Nothing that another collector could have."""
        return ()

    def collect(self) -> Iterator[Metric]:
        devices = GaugeMetricFamily(
            "laneway_device_plugin_devices",
            "Devices that the agent advertises, by resource: offered, healthy, allocated to a pod.",
            labels=["node", "resource", "state"],
        )
        registrations = CounterMetricFamily(
            "laneway_device_plugin_registrations",
            "Registrations of device plugins with the kubelet.",
            labels=["node", "resource"],
        )
        refused = CounterMetricFamily(
            "laneway_device_plugin_allocate_failures",
            "Allocations that the agent refused to the kubelet.",
            labels=["node", "resource"],
        )
        for node, allocated in self._nodes.items():
            found = allocated()
            self._seen.update((node, resource) for resource in found)
            for resource in sorted(one for of, one in self._seen if of == node):
                numbers = found.get(resource, AllocationCounts())
                for state in ("offered", "healthy", "allocated"):
                    devices.add_metric([node, resource, state], getattr(numbers, state))
                registrations.add_metric([node, resource], numbers.registrations)
                refused.add_metric([node, resource], numbers.refused)
        yield from (devices, registrations, refused)


Count = Callable[[Inventory, dict[str, str]], Iterable[Sample]]


def _single(numbers: Mapping[str, float]) -> list[Sample]:
    return [((value,), number) for value, number in numbers.items()]


def _fragmentation(inventory: Inventory, _desired_states: dict[str, str]) -> list[Sample]:
    return _single({gpu: score([one]) or 0 for gpu, one in census.unused(inventory).items()})


def _devices(inventory: Inventory, _desired_states: dict[str, str]) -> list[Sample]:
    numbers = {
        "pci": len(inventory.functions),
        "usb": len(inventory.usb),
        "vgpu-function": len(inventory.vgpus),
        "vgpu": sum(vgpu.configured is not None for vgpu in inventory.vgpus),
    }
    return _single(numbers)


def _vgpus(inventory: Inventory, desired_states: dict[str, str]) -> list[Sample]:
    there, missing = census.vgpus(inventory), census.missing(inventory, desired_states)
    return [
        *(((profile, "configured"), count) for profile, count in there.items()),
        *(((profile, "missing"), count) for profile, count in missing.items()),
    ]


_DEVICES: dict[str, tuple[str, tuple[str, ...], Count]] = {
    "laneway_devices": ("Devices found by the last scan.", ("kind",), _devices),
    "laneway_scan_errors": (
        "Devices, or parts of them, that the last scan could not read.",
        (),
        lambda inventory, _: [((), len(inventory.errors))],
    ),
    "laneway_gpus": (
        "NVIDIA GPUs that can have virtual functions, by state.",
        ("state",),
        lambda inventory, _: [((state,), n) for state, n in census.gpus(inventory).items()],
    ),
    "laneway_gpu_modes": (
        "NVIDIA GPUs that can have virtual functions, by mode.",
        ("mode",),
        lambda inventory, _: _single(census.modes(inventory)),
    ),
    "laneway_virtual_functions": (
        "Virtual functions, by kind of their card and by state.",
        ("kind", "state"),
        lambda inventory, _: list(census.vfs(inventory).items()),
    ),
    "laneway_vgpus": (
        "vGPUs by profile and state: existing, or requested and missing.",
        ("profile", "state"),
        _vgpus,
    ),
    "laneway_vgpus_free": (
        "How many more vGPUs of a profile fit, if no other is made.",
        ("profile",),
        lambda inventory, _: _single(census.free(inventory)),
    ),
    "laneway_gpu_fragmentation": (
        "1 - the largest vGPU that still fits / the memory without a vGPU; 0 where all is in use.",
        ("gpu",),
        _fragmentation,
    ),
    "laneway_node_fragmentation": (
        "The same with the sums over the GPUs of the node.",
        (),
        lambda inventory, _: [((), score(census.unused(inventory).values()) or 0)],
    ),
    "laneway_profile_fragmentation": (
        "1 - the memory of the vGPUs of a profile that still fit / the memory without a vGPU.",
        ("profile",),
        lambda inventory, _: _single(by_profile(census.unused(inventory).values())),
    ),
    "laneway_gpu_instances": (
        "GPU instances that exist, by profile.",
        ("profile",),
        lambda inventory, _: _single(census.gpu_instances(inventory)),
    ),
}
"""What each metric is for, its labels after the node, and what it counts."""


class AgentMetrics:
    """The metrics of one node."""

    def __init__(
        self, families: MetricFamilies, node: str, *, desired_vgpus: DesiredVgpus = dict
    ) -> None:
        self._families = families
        self._node = node
        self._desired_vgpus = desired_vgpus

    def scanned(self, seconds: float) -> None:
        """One scan is complete."""
        self._families.scan_seconds.labels(self._node).observe(seconds)

    def observed(self, inventory: Inventory) -> None:
        """The devices have changed."""
        self._families.devices.put(self._node, inventory, self._desired_vgpus)

    def counts_allocations(self, allocated: AllocationCountsOf) -> None:
        """Where to read what pods have."""
        self._families.allocated.put(self._node, allocated)

    def measured(self, measurements: Measurements) -> None:
        """The driver was asked what it measures."""
        self._families.measured.put(self._node, measurements)

    def counts_reports(self, reports: Callable[[], Reports]) -> None:
        """Where to read which errors GPUs have reported."""
        self._families.measured.put_reports(self._node, reports)

    def uevent(self, subsystem: str) -> None:
        """One kernel event arrived."""
        self._families.uevents.labels(self._node, subsystem).inc()

    def wrote(self, verb: str, kind: str) -> None:
        """One write to the API server succeeded."""
        self._families.writes.labels(self._node, verb, kind).inc()

    def operation(self, operation: str, result: str, seconds: float) -> None:
        """A plan ended: `done` or `failed`."""
        self._families.operations.labels(self._node, operation, result).observe(seconds)

    def restored(self, seconds: float) -> None:
        """All desired states are met that can be, so long after the start."""
        self._families.restored.labels(self._node).set(seconds)

    def failed(self, reason: str) -> None:
        """A desired state was refused, or failed."""
        self._families.failures.labels(self._node, reason).inc()
