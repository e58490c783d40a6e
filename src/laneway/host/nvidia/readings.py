"""What `nvidia-smi` measures: one question about all GPUs, and one about all vGPUs in use.

GPUs are asked for single values as CSV. On an H100 that takes 25 ms of CPU, a third of the whole
report in XML, which also is too long on a server with several GPUs. `nvidia-smi vgpu` has neither
form, so its report for people is read. A release that lacks a field refuses the whole question;
then it is asked again without that field.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from laneway.core.gpu.readings import GpuReading, VgpuReading
from laneway.core.pci import PciAddress
from laneway.core.programs import NVIDIA_SMI
from laneway.host.command import Ended, run
from laneway.host.nvidia.smi import UnreadableError
from laneway.host.port import Executor

SECONDS = 10.0
"""How long a question may take; a healthy driver answers at once."""

_ADDRESS, _DRIVER, _ECC, _MODEL = "pci.bus_id", "driver_version", "ecc.mode.current", "name"
TEMPERATURE = "temperature.gpu"
MEMORY_TEMPERATURE = "temperature.memory"
MARGIN = "temperature.gpu.tlimit"
POWER, POWER_LIMIT = "power.draw", "enforced.power.limit"
UTILIZATION = "utilization.{}"
ENGINES = ("gpu", "memory", "encoder", "decoder")
MEMORY_USED, MEMORY_TOTAL = "memory.used", "memory.total"
ENCODER_SESSIONS = "encoder.stats.sessionCount"
ECC_ERRORS = "ecc.errors.{}.{}.total"
SEVERITIES, COUNTERS = ("corrected", "uncorrected"), ("volatile", "aggregate")
SLOWDOWN = "clocks_throttle_reasons.{}_thermal_slowdown"
"""Its name before release 535, which later ones understand too."""
SLOWDOWNS = {"hardware": SLOWDOWN.format("hw"), "software": SLOWDOWN.format("sw")}

FIELDS = (
    TEMPERATURE,
    MEMORY_TEMPERATURE,
    MARGIN,
    POWER,
    POWER_LIMIT,
    *(UTILIZATION.format(engine) for engine in ENGINES),
    MEMORY_USED,
    MEMORY_TOTAL,
    ENCODER_SESSIONS,
    *(ECC_ERRORS.format(severity, counter) for severity in SEVERITIES for counter in COUNTERS),
    *SLOWDOWNS.values(),
)
"""What is asked of each GPU if the driver's release knows it."""

FRAMEBUFFER_USED, FRAMEBUFFER_TOTAL = "FB Memory Usage/Used", "FB Memory Usage/Total"
VGPU_UTILIZATION = {engine: f"Utilization/{engine.title()}" for engine in ENGINES}
VGPU_ENCODER_SESSIONS = "Encoder Stats/Active Sessions"
FRAME_RATE_LIMIT = "Frame Rate Limit"
LICENSED = "License Status"

_REFUSED = re.compile(r'Field "([a-z._A-Z]{1,80})" is not a valid field to query')
_NO_GPUS = "No devices were found"
_NO_VGPUS = "No supported devices in vGPU mode"
_NUMBER = re.compile(r"(-?[0-9]{1,15}(?:\.[0-9]{1,6})?)(?: (?:MiB|%|FPS))?")
_SWITCH = {"Active": 1.0, "Not Active": 0.0}
_HEADING = re.compile(r"GPU ([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")


async def read_gpus(
    executor: Executor, lacking: Collection[str] = ()
) -> tuple[tuple[GpuReading, ...], frozenset[str]]:
    """All GPUs that the driver has, and the fields that its release lacks.

    `lacking`: those that are known to be. Raises OSError with words.
    """
    without = set(lacking)
    while True:
        fields = tuple(field for field in FIELDS if field not in without)
        # The name may have the mark that separates values, so it is the last of them.
        names = (_ADDRESS, _DRIVER, _ECC, *fields, _MODEL)
        argv = (NVIDIA_SMI, f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits")
        ended = await run(executor, argv, SECONDS)
        refused = _REFUSED.search(ended.output)
        if ended.status == 0 or refused is None or refused[1] not in fields:
            return _gpus(ended, fields), frozenset(without)
        without.add(refused[1])


async def read_vgpus(executor: Executor) -> tuple[VgpuReading, ...]:
    """All vGPUs that a VM has open. Raises OSError with words."""
    ended = await run(executor, (NVIDIA_SMI, "vgpu", "-q"), SECONDS)
    if _NO_VGPUS in ended.output:
        return ()
    if ended.status != 0:
        raise ended.error()
    return tuple(_vgpus(ended.output))


def _gpus(ended: Ended, fields: tuple[str, ...]) -> tuple[GpuReading, ...]:
    if _NO_GPUS in ended.output:
        return ()
    if ended.status != 0:
        raise ended.error()
    found = []
    for line in filter(str.strip, ended.output.splitlines()):
        address, *cells = line.split(", ", len(fields) + 3)
        if len(cells) != len(fields) + 3:
            raise UnreadableError(ended.output, line)
        driver, ecc, *values, model = cells
        found.append(
            GpuReading(
                address=_parse_address(address, line),
                model=model.strip(),
                driver=driver,
                ecc=ecc if ecc in ("Enabled", "Disabled") else "",
                numbers=_numbers(zip(fields, values, strict=True)),
            )
        )
    return tuple(found)


def _vgpus(text: str) -> Iterator[VgpuReading]:
    """From a report whose rows are indented: a GPU, its vGPUs, their values, and groups of those.

    Its first row is a GPU. Where it is not, the report is something else, or lacks its beginning.
    """
    gpu: PciAddress | None = None
    values: dict[str, str] = {}
    group = ""
    for line in filter(str.strip, text.splitlines()):
        heading = _HEADING.fullmatch(line.strip())
        if heading is None and gpu is None:
            raise UnreadableError(text, line)
        name, colon, value = (part.strip() for part in line.partition(" : "))
        if gpu is not None and (heading or name == "vGPU ID"):
            if values:
                yield _vgpu(gpu, values)
            values, group = {}, ""
        if heading:
            gpu = _parse_address(heading[1], line)
        elif name == "vGPU ID":
            values = {name: value}
        elif not colon:
            group = name
        elif line.startswith(" " * 12):
            values[f"{group}/{name.title()}"] = value
        elif values:
            values[name] = value
    if gpu is None:
        raise UnreadableError(text)
    if values:
        yield _vgpu(gpu, values)


def _vgpu(gpu: PciAddress, values: dict[str, str]) -> VgpuReading:
    numbers = _numbers(values.items())
    licensed = values.get(LICENSED, "")
    if licensed.startswith(("Licensed", "Unlicensed")):
        numbers[LICENSED] = float(licensed.startswith("Licensed"))
    return VgpuReading(
        gpu=gpu,
        id=values["vGPU ID"],
        profile=values.get("vGPU Name", ""),
        mdev=_told(values.get("MDEV UUID", "")).lower(),
        domain=_told(values.get("VM Name", "")),
        gpu_instance=_whole(values.get("GPU Instance ID", "")),
        placement=_whole(values.get("Placement ID", "")),
        numbers=numbers,
    )


def _numbers(values: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Those that are numbers. Any other text says why there is none: `[N/A]`, `Not Supported`."""
    found = {}
    for name, text in values:
        if match := _NUMBER.fullmatch(text.strip()):
            found[name] = float(match[1])
        elif text.strip() in _SWITCH:
            found[name] = _SWITCH[text.strip()]
    return found


def _told(text: str) -> str:
    return "" if text in ("N/A", "[N/A]") else text


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= len("999999") else None


def _parse_address(text: str, line: str) -> PciAddress:
    """With the domain of eight digits that the program prints."""
    domain, _, rest = text.strip().partition(":")
    try:
        return PciAddress.parse(f"{int(domain, 16):04x}:{rest.lower()}")
    except ValueError:
        raise UnreadableError(line) from None
