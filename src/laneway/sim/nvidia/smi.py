"""`nvidia-smi` on a simulated host, as far as anybody needs it to prepare a GPU for vGPUs.

Its words and exit codes are the real program's: programs read them. GPUs are named by index or by
PCI address with a domain of four or eight digits and are printed with eight; a GPU that has
another driver does not exist for it. `smi_mig` has what follows `nvidia-smi mig`, `smi_vgpu` what
follows `nvidia-smi vgpu`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from laneway.sim.nvidia import measured, smi_mig, smi_vgpu
from laneway.sim.nvidia.arguments import Arguments, UsageError, parse
from laneway.sim.nvidia.driver import NvidiaDriver
from laneway.sim.nvidia.names import architecture, product_name
from laneway.sim.nvidia.nvml import NvmlError, Status
from laneway.sim.nvidia.selection import NoSuchGpuError, bus_id, select
from laneway.sim.programs import Completed

_VALUED = frozenset({"-i", "--id", "-mig", "--query-gpu", "--format"})
_FLAGS = frozenset({"-q", "-L"})
_USAGE = 2


def run(driver: NvidiaDriver, argv: Sequence[str]) -> Completed:
    """Carry out a command line; its first word is the program."""
    words = list(argv[1:])
    try:
        if words[:1] == ["mig"]:
            return smi_mig.run(driver, words[1:])
        if words[:1] == ["vgpu"]:
            return smi_vgpu.run(driver, words[1:])
        return _top(driver, parse(words, _VALUED, _FLAGS))
    except NoSuchGpuError:
        return Completed(Status.NOT_FOUND, "No devices were found\n")
    except UsageError as error:
        return Completed(_USAGE, f"{error} Please run 'nvidia-smi -h' for help.\n")


def _top(driver: NvidiaDriver, arguments: Arguments) -> Completed:
    gpus = select(driver, arguments.get("-i") or arguments.get("--id"))
    if "-mig" in arguments:
        return _set_mig(driver, gpus, arguments["-mig"])
    if "--query-gpu" in arguments:
        return _query(driver, gpus, arguments)
    if "-L" in arguments:
        return Completed(0, "".join(_listing(driver, path) for path in gpus))
    if "-q" in arguments:
        return Completed(0, _report(driver, gpus))
    raise UsageError("Invalid combination of input arguments.")


def _set_mig(driver: NvidiaDriver, gpus: Sequence[str], value: str) -> Completed:
    if value not in ("0", "1"):
        raise UsageError(f"Invalid MIG mode: {value!r}.")
    enabled = value == "1"
    lines = []
    for path in gpus:
        try:
            driver.card(path).set_mig(enabled=enabled, busy=_busy(driver, path))
        except NvmlError as error:
            does = "enable" if enabled else "disable"
            lines.append(f"Unable to {does} MIG Mode for GPU {bus_id(path)}: {error}")
            lines.append("Terminating early due to previous errors.")
            return Completed(error.status, _text(lines))
        lines.append(f"{'Enabled' if enabled else 'Disabled'} MIG Mode for GPU {bus_id(path)}")
    return Completed(0, _text([*lines, "All done."]))


def _busy(driver: NvidiaDriver, path: str) -> bool:
    """Whether something keeps the GPU from the reset that a change of MIG mode needs."""
    has_vfs = any(name.startswith("virtfn") for name in driver.tree.names(f"/sys{path}"))
    return has_vfs or driver.watched(path)


# ------------------------------------------------------------------------------------- queries

_Field = Callable[[NvidiaDriver, str], str]


def _mig_mode(driver: NvidiaDriver, path: str) -> str:
    card = driver.card(path)
    if card.geometry is None:
        return "[N/A]"
    return "Enabled" if card.mig else "Disabled"


_FIELDS: Mapping[str, _Field] = {
    "index": lambda driver, path: str(driver.gpus().index(path)),
    "name": lambda driver, path: product_name(driver.devices[path]),
    "pci.bus_id": lambda _, path: bus_id(path),
    "uuid": lambda driver, path: f"GPU-{driver.identity(path)}",
    "driver_version": lambda driver, _: driver.release(),
    "mig.mode.current": _mig_mode,
    "mig.mode.pending": _mig_mode,
    **measured.FIELDS,
}


def _query(driver: NvidiaDriver, gpus: Sequence[str], arguments: Arguments) -> Completed:
    names = [name.strip() for name in arguments["--query-gpu"].split(",")]
    for name in names:
        if name not in _FIELDS:
            return Completed(_USAGE, f'Field "{name}" is not a valid field to query.\n\n')
    form = arguments.get("--format", "").split(",")
    if "csv" not in form:
        raise UsageError('"--format=" switch is missing.')
    units = [measured.UNITS.get(name, "") for name in names]
    heads = [f"{name} [{unit}]" if unit else name for name, unit in zip(names, units, strict=True)]
    lines = [] if "noheader" in form else [", ".join(heads)]
    for path in gpus:
        values = [_FIELDS[name](driver, path) for name in names]
        if "nounits" not in form:
            values = [measured.with_unit(*one) for one in zip(values, units, strict=True)]
        lines.append(", ".join(values))
    return Completed(0, _text(lines))


def _listing(driver: NvidiaDriver, path: str) -> str:
    name = product_name(driver.devices[path])
    lines = [f"GPU {driver.gpus().index(path)}: {name} (UUID: GPU-{driver.identity(path)})"]
    computing = [
        (number, instance.profile)
        for number, instance in sorted(driver.card(path).instances.items())
        if instance.computing
    ]
    for position, (number, profile) in enumerate(computing):
        uuid = driver.identity(path, number)
        lines.append(f"  MIG {profile.name:<11} Device {position:>2}: (UUID: MIG-{uuid})")
    return _text(lines)


def _report(driver: NvidiaDriver, gpus: Sequence[str]) -> str:
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        _row(0, "Driver Version", driver.release()),
        _row(0, "CUDA Version", "Not Found"),
        "vGPU Driver Capability",
        _row(8, "Heterogenous Multi-vGPU", "Supported"),
        "",
        _row(0, "Attached GPUs", str(len(driver.gpus()))),
    ]
    for path in gpus:
        lines += _gpu_report(driver, path)
    return _text(lines)


def _gpu_report(driver: NvidiaDriver, path: str) -> list[str]:
    block, card = driver.devices[path], driver.card(path)
    mixed = "N/A"
    if card.mixes_sizes and not card.mig:
        mixed = "Enabled" if card.mixed else "Disabled"
    mig = _mig_mode(driver, path).strip("[]")
    shares = bool(card.types)
    return [
        f"GPU {bus_id(path)}",
        _row(4, "Product Name", product_name(block)),
        _row(4, "Product Brand", "NVIDIA"),
        _row(4, "Product Architecture", architecture(block)),
        _row(4, "Persistence Mode", "Enabled"),
        "    vGPU Device Capability",
        _row(8, "Fractional Multi-vGPU", _supported(shares)),
        _row(8, "Heterogeneous Time-Slice Profiles", _supported(shares)),
        _row(8, "Heterogeneous Time-Slice Sizes", _supported(card.mixes_sizes)),
        "    MIG Mode",
        _row(8, "Current", mig),
        _row(8, "Pending", mig),
        _row(4, "GPU UUID", f"GPU-{driver.identity(path)}"),
        "    GPU Virtualization Mode",
        _row(8, "Virtualization Mode", "Host VGPU" if shares else "None"),
        _row(8, "Host VGPU Mode", "SR-IOV" if shares else "N/A"),
        _row(8, "vGPU Heterogeneous Mode", mixed),
        "    PCI",
        _row(8, "Bus Id", bus_id(path)),
        "",
    ]


def _row(indent: int, name: str, value: str) -> str:
    return f"{' ' * indent + name:<42}: {value}"


def _supported(it_is: bool) -> str:
    return "Supported" if it_is else "Not Supported"


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
