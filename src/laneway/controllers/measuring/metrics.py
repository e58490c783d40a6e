"""What is measured of GPUs and vGPUs, as Prometheus reads it.

Everything is made from the last answer when it is scraped. So the values of a GPU that went, of a
vGPU whose VM ended, and of a driver that does not answer go with it, and there are never more
series than devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from laneway.core.gpu.readings import GpuReading, VgpuReading
from laneway.core.pci import PciAddress
from laneway.host.nvidia import readings as fields

Sample = tuple[tuple[str, ...], float]
"""Values of the labels after those of the device, and a number."""

_MIB = 1024 * 1024


class Question(NamedTuple):
    """How one question ended."""

    answered: bool
    seconds: float


class MeasuredVgpu(NamedTuple):
    """A measurement with whose it is."""

    reading: VgpuReading
    vgpu: str
    """The function that carries it, or the driver's number where that is not certain."""
    namespace: str
    vm: str


class Measurements(NamedTuple):
    """All that is known of one node."""

    gpus: tuple[GpuReading, ...] = ()
    vgpus: tuple[MeasuredVgpu, ...] = ()
    asked: Mapping[str, Question] = {}
    """The last questions; none where there is nothing to ask."""
    failures: Mapping[str, int] = {}


class Reports(NamedTuple):
    """What the kernel's log says of the GPUs that are there."""

    xids: Mapping[tuple[PciAddress, int], int] = {}
    faults: Mapping[PciAddress, int] = {}


class MeasurementCollector(Collector):
    """The last measurements of every node of a process."""

    def __init__(self) -> None:
        self._nodes: dict[str, Measurements] = {}
        self._reports: dict[str, Callable[[], Reports]] = {}

    def put(self, node: str, measurements: Measurements) -> None:
        """From now on a node has these."""
        self._nodes[node] = measurements

    def put_reports(self, node: str, reports: Callable[[], Reports]) -> None:
        """From now on a node is asked so."""
        self._reports[node] = reports

    def describe(self) -> Iterable[Metric]:
        """Nothing that another collector could have."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from self._of_gpus()
        yield from self._of_vgpus()
        yield from self._reported()
        yield from self._asked()

    def _of_gpus(self) -> Iterator[Metric]:
        for name, (text, labels, samples) in PER_GPU.items():
            family = GaugeMetricFamily(name, text, labels=["node", *labels])
            for node, measured in self._nodes.items():
                for gpu in measured.gpus:
                    for values, number in samples(gpu):
                        family.add_metric([node, str(gpu.address), *values], number)
            yield family
        errors = CounterMetricFamily(
            "laneway_gpu_ecc_errors",
            "ECC errors of a GPU: volatile since its driver was loaded, aggregate of its life.",
            labels=["node", "gpu", "severity", "counter"],
        )
        for node, measured in self._nodes.items():
            for gpu in measured.gpus:
                for severity in fields.SEVERITIES:
                    for counter in fields.COUNTERS:
                        field = fields.ECC_ERRORS.format(severity, counter)
                        if field in gpu.numbers:
                            errors.add_metric(
                                [node, str(gpu.address), severity, counter], gpu.numbers[field]
                            )
        yield errors

    def _of_vgpus(self) -> Iterator[Metric]:
        for name, (text, labels, samples) in PER_VGPU.items():
            family = GaugeMetricFamily(name, text, labels=["node", *labels])
            for node, measured in self._nodes.items():
                for one in measured.vgpus:
                    reading = one.reading
                    device = (node, str(reading.gpu), one.vgpu, reading.profile)
                    for values, number in samples(reading):
                        family.add_metric([*device, one.namespace, one.vm, *values], number)
            yield family

    def _reported(self) -> Iterator[Metric]:
        xids = CounterMetricFamily(
            "laneway_gpu_xids",
            "Errors (Xid) that the kernel's log has of a GPU since the node was booted.",
            labels=["node", "gpu", "xid"],
        )
        faults = GaugeMetricFamily(
            "laneway_gpu_faults",
            "1 while a GPU must be reset, or its node rebooted, because of an error (Xid).",
            labels=["node", "gpu", "xid"],
        )
        for node, reports in self._reports.items():
            found = reports()
            for (gpu, code), count in sorted(found.xids.items()):
                xids.add_metric([node, str(gpu), str(code)], count)
            for gpu, code in sorted(found.faults.items()):
                faults.add_metric([node, str(gpu), str(code)], 1)
        yield from (xids, faults)

    def _asked(self) -> Iterator[Metric]:
        success = GaugeMetricFamily(
            "laneway_gpu_query_success",
            "Whether the driver answered the last question about its GPUs, or its vGPUs.",
            labels=["node", "query"],
        )
        seconds = GaugeMetricFamily(
            "laneway_gpu_query_seconds",
            "How long the last question about GPUs, or vGPUs, took.",
            labels=["node", "query"],
        )
        failures = CounterMetricFamily(
            "laneway_gpu_query_failures",
            "Questions about GPUs, or vGPUs, that the driver did not answer.",
            labels=["node", "query"],
        )
        for node, measured in self._nodes.items():
            for query, question in measured.asked.items():
                success.add_metric([node, query], question.answered)
                seconds.add_metric([node, query], question.seconds)
            for query, count in measured.failures.items():
                failures.add_metric([node, query], count)
        yield from (success, seconds, failures)


def _one(field: str, factor: float = 1) -> Callable[[GpuReading | VgpuReading], Iterable[Sample]]:
    """One value; none where the driver does not tell it."""
    return _each({(): field}, factor)


def _each(
    by_labels: Mapping[tuple[str, ...], str], factor: float = 1
) -> Callable[[GpuReading | VgpuReading], Iterable[Sample]]:
    def samples(reading: GpuReading | VgpuReading) -> Iterable[Sample]:
        return [
            (values, reading.numbers[field] * factor)
            for values, field in by_labels.items()
            if field in reading.numbers
        ]

    return samples


def _info(gpu: GpuReading) -> Iterable[Sample]:
    return [((gpu.model, gpu.driver, gpu.ecc), 1)]


PER_GPU: Mapping[str, tuple[str, tuple[str, ...], Callable[[GpuReading], Iterable[Sample]]]] = {
    "laneway_gpu_info": (
        "1 for each GPU that the driver has, with its model, driver and ECC mode.",
        ("gpu", "model", "driver", "ecc"),
        _info,
    ),
    "laneway_gpu_temperature_celsius": (
        "Temperature of a GPU and of its memory.",
        ("gpu", "sensor"),
        _each({("gpu",): fields.TEMPERATURE, ("memory",): fields.MEMORY_TEMPERATURE}),
    ),
    "laneway_gpu_temperature_margin_celsius": (
        "Degrees that are left until the highest operating temperature of a GPU.",
        ("gpu",),
        _one(fields.MARGIN),
    ),
    "laneway_gpu_thermal_slowdown": (
        "1 while a GPU is slowed because of its temperature, by its hardware or its driver.",
        ("gpu", "by"),
        _each({(by,): field for by, field in fields.SLOWDOWNS.items()}),
    ),
    "laneway_gpu_power_watts": (
        "Power that a GPU draws.",
        ("gpu",),
        _one(fields.POWER),
    ),
    "laneway_gpu_power_limit_watts": (
        "Power that a GPU may draw.",
        ("gpu",),
        _one(fields.POWER_LIMIT),
    ),
    "laneway_gpu_utilization_ratio": (
        "Share of the time in which a part of a GPU was busy, from 0 to 1.",
        ("gpu", "engine"),
        _each({(one,): fields.UTILIZATION.format(one) for one in fields.ENGINES}, 0.01),
    ),
    "laneway_gpu_memory_used_bytes": (
        "Memory of a GPU that is in use.",
        ("gpu",),
        _one(fields.MEMORY_USED, _MIB),
    ),
    "laneway_gpu_memory_total_bytes": (
        "Memory of a GPU.",
        ("gpu",),
        _one(fields.MEMORY_TOTAL, _MIB),
    ),
    "laneway_gpu_encoder_sessions": (
        "Encoder sessions on a GPU.",
        ("gpu",),
        _one(fields.ENCODER_SESSIONS),
    ),
}
"""What each metric of a GPU is for, its labels after the node, and its values."""

PER_VGPU: Mapping[str, tuple[str, tuple[str, ...], Callable[[VgpuReading], Iterable[Sample]]]] = {
    "laneway_vgpu_framebuffer_used_bytes": (
        "Framebuffer of a vGPU that is in use.",
        ("gpu", "vgpu", "profile", "namespace", "vm"),
        _one(fields.FRAMEBUFFER_USED, _MIB),
    ),
    "laneway_vgpu_framebuffer_total_bytes": (
        "Framebuffer of a vGPU.",
        ("gpu", "vgpu", "profile", "namespace", "vm"),
        _one(fields.FRAMEBUFFER_TOTAL, _MIB),
    ),
    "laneway_vgpu_utilization_ratio": (
        "Share of the time in which a vGPU kept a part of its GPU busy, from 0 to 1.",
        ("gpu", "vgpu", "profile", "namespace", "vm", "engine"),
        _each({(one,): field for one, field in fields.VGPU_UTILIZATION.items()}, 0.01),
    ),
    "laneway_vgpu_encoder_sessions": (
        "Encoder sessions on a vGPU.",
        ("gpu", "vgpu", "profile", "namespace", "vm"),
        _one(fields.VGPU_ENCODER_SESSIONS),
    ),
    "laneway_vgpu_licensed": (
        "Whether the driver in the VM has a license; missing while the VM has not told.",
        ("gpu", "vgpu", "profile", "namespace", "vm"),
        _one(fields.LICENSED),
    ),
    "laneway_vgpu_frame_rate_limit": (
        "Frames a second to which a vGPU is limited; missing where it is not.",
        ("gpu", "vgpu", "profile", "namespace", "vm"),
        _one(fields.FRAME_RATE_LIMIT),
    ),
}
"""The same of a vGPU that a VM has open."""
