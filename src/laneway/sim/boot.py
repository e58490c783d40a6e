"""What boots a simulated host: Debian's GRUB, with the files that its package has.

`grub-mkconfig` makes the configuration from the files that it is made from on Debian, and a reboot
starts what the first entry of that configuration says: with IOMMU groups only where the command
line has the kernel use the IOMMU, and with the modules of modules-load.d.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from laneway.sim.modules import RELEASE
from laneway.sim.programs import Program
from laneway.sim.tree import Directory, Tree

CONFIG = "/boot/grub/grub.cfg"
COMMAND_LINE = "/proc/cmdline"

_DEFAULTS = "/etc/default/grub"
_DROP_INS = "/etc/default/grub.d"
_MKCONFIG = "/usr/sbin/grub-mkconfig"
_MODULES = "/etc/modules-load.d"
_ROOT = "root=/dev/nvme0n1p2 ro"
_IOMMU = "intel_iommu=on iommu=pt"
_FORGETS = frozenset(("proc", "sys", "dev", "run"))
"""Folders that a reboot makes again."""
_ASSIGNMENT = re.compile(r"""\s*(GRUB_\w+)=("[^"]*"|'[^']*'|\S*)\s*(?:#.*)?""")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def installed(*, iommu: bool) -> dict[str, bytes]:
    """The files of a host; without `iommu` as the installer left it."""
    words = f"console=tty0 {_IOMMU}" if iommu else "console=tty0"
    texts = {
        _DEFAULTS: f'GRUB_DEFAULT=0\nGRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX="{words}"\n',
        f"{_DROP_INS}/init-select.cfg": "# not used\n",
        _MKCONFIG: "#!/bin/sh\nfor x in ${sysconfdir}/default/grub.d/*.cfg ; do\n",
        f"{_MODULES}/modules.conf": "# /etc/modules\n",
        f"/boot/vmlinuz-{RELEASE}": "kernel",
        f"/boot/initrd.img-{RELEASE}": "initial RAM disk",
        COMMAND_LINE: f"{_ROOT} {words}\n",
        "/proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\n",
        "/proc/meminfo": "MemTotal:       268435456 kB\n",
        "/sys/firmware/acpi/tables/DMAR": "",
    }
    tree = Tree()
    for path, text in texts.items():
        tree.put(path, text.encode())
    return {path: text.encode() for path, text in texts.items()} | {CONFIG: _configuration(tree)}


def uses_iommu(command_line: str) -> bool:
    """Whether the kernel uses the IOMMU of an Intel processor."""
    words = command_line.split()
    return "intel_iommu=on" in words and not {"iommu=off", "intel_iommu=off"} & set(words)


def programs(tree: Tree, reboot: Callable[[], None]) -> dict[str, Program]:
    """The programs of the system, where its boot loader is known."""

    def make(argv: Sequence[str]) -> tuple[int, str]:
        match argv[1:]:
            case ["-o", path]:
                tree.put(path, _configuration(tree))
                return 0, "Generating grub configuration file ...\ndone\n"
        return 1, "grub-mkconfig: only -o FILE is simulated\n"

    def control(argv: Sequence[str]) -> tuple[int, str]:
        if list(argv[1:]) != ["reboot"]:
            return 1, f"Unknown command verb {' '.join(argv[1:])[:40]}.\n"
        reboot()
        return 0, ""

    if not tree.exists(CONFIG):
        return {}
    update = Program(lambda _: make(["", "-o", CONFIG]), lambda _: True)
    return {
        "grub-mkconfig": Program(make, lambda _: True),
        "update-grub": update,
        "systemctl": Program(control, lambda _: True),
    }


def kept(tree: Tree) -> dict[str, Directory]:
    """Folders that outlive a reboot."""
    return {name: node for name, node in tree.top().items() if name not in _FORGETS}


def next_command_line(tree: Tree) -> str:
    """What the next boot starts the kernel with."""
    if not tree.exists(CONFIG):
        return tree.read(COMMAND_LINE).decode() if tree.exists(COMMAND_LINE) else ""
    for line in tree.read(CONFIG).decode().splitlines():
        match line.split():
            case ["linux", _, *words]:
                return " ".join(words) + "\n"
    return f"{_ROOT}\n"


def huge_pages(command_line: str) -> dict[str, bytes]:
    """Counts that the kernel starts with, by file; it grants them all."""
    counts = {"2M": "0", "1G": "0"}
    size = "2M"
    for word in command_line.split():
        name, _, value = word.partition("=")
        if name == "hugepagesz":
            size = value
        elif name == "hugepages":
            counts[size] = value
    kilobytes = {"2M": 2048, "1G": 1048576}
    return {
        f"/sys/kernel/mm/hugepages/hugepages-{kilobytes[size]}kB/nr_hugepages": f"{n}\n".encode()
        for size, n in counts.items()
        if size in kilobytes
    }


def loaded_at_boot(tree: Tree) -> list[str]:
    """Modules that systemd-modules-load loads."""
    if not tree.exists(_MODULES):
        return []
    texts = [tree.read(f"{_MODULES}/{name}").decode() for name in sorted(tree.names(_MODULES))]
    return [line for text in texts for line in text.splitlines() if line and line[0] not in "#;"]


def _configuration(tree: Tree) -> bytes:
    values: dict[str, str] = {}
    names = sorted(tree.names(_DROP_INS)) if tree.exists(_DROP_INS) else []
    drop_ins = [f"{_DROP_INS}/{name}" for name in names if name.endswith(".cfg")]
    for path in [_DEFAULTS, *drop_ins]:
        for line in tree.read(path).decode().splitlines() if tree.exists(path) else []:
            if found := _ASSIGNMENT.fullmatch(line):
                values[found[1]] = _value(found[2], values)
    words = " ".join(
        (values.get("GRUB_CMDLINE_LINUX", ""), values.get("GRUB_CMDLINE_LINUX_DEFAULT", ""))
    )
    single = f"single {values.get('GRUB_CMDLINE_LINUX', '')}"
    lines = ["### BEGIN /etc/grub.d/00_header ###", "set timeout=5"]
    lines += ["### END /etc/grub.d/00_header ###", "", "### BEGIN /etc/grub.d/10_linux ###"]
    kernels = [name for name in tree.names("/boot") if name.startswith("vmlinuz-")]
    for kernel in sorted(kernels, reverse=True):
        release = kernel.removeprefix("vmlinuz-")
        for title, line in ((release, words), (f"{release} (recovery mode)", single)):
            lines += [
                f"menuentry 'Debian GNU/Linux, with Linux {title}' --class debian {{",
                f"\tlinux\t/boot/{kernel} {_ROOT} {line}".rstrip(),
                f"\tinitrd\t/boot/initrd.img-{release}",
                "}",
            ]
    lines += ["### END /etc/grub.d/10_linux ###"]
    return "".join(f"{line}\n" for line in lines).encode()


def _value(text: str, values: dict[str, str]) -> str:
    if text.startswith("'"):
        return text.strip("'")
    return _VARIABLE.sub(lambda found: values.get(found[1] or found[2], ""), text.strip('"'))
