"""Every boot loader on a tree of files as its packages and installers make it.

Each is prepared, looked at again, killed in the middle, and undone to the byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from laneway.core.preparation.arguments import of_kernel, split
from laneway.core.preparation.configured import configured
from laneway.core.preparation.decide import Preparation, decide, stage_of
from laneway.core.preparation.facts import LoaderName
from laneway.core.preparation.wanted import NOTHING, HugePages, Wanted
from laneway.host.boot.facts import read_facts
from laneway.host.boot.prepare import prepare
from laneway.host.boot.verify import verify
from laneway.host.hardware import Hardware
from laneway.host.plans.operations.operation import Limits
from laneway.host.plans.recover import recover
from laneway.host.plans.state import open_state
from laneway.sim.faults import Killed
from laneway.sim.host import SimulatedHost
from laneway.sim.programs import Program
from support.cut_disks import disk, kills

WANTED = Wanted(
    iommu=True,
    vfio_at_boot=True,
    blocked_drivers=("nouveau",),
    huge_pages=(HugePages("1G", 4),),
    kernel_arguments=("quiet",),
)
ADDED = ["intel_iommu=on", "modprobe.blacklist=nouveau", "hugepagesz=1G", "hugepages=4"]
LIMITS = Limits(settle_seconds=0.0, aftermath_seconds=0.0, poll_seconds=0.0)

KERNEL = {
    "/proc/cmdline": "root=UUID=1 ro quiet\n",
    "/proc/cpuinfo": "vendor_id\t: GenuineIntel\n",
    "/proc/sys/kernel/osrelease": "6.12.0\n",
    "/sys/firmware/acpi/tables/DMAR": "",
    "/sys/bus/pci/drivers/vfio-pci/uevent": "",
    "/sys/module/nouveau/refcnt": "0\n",
    "/etc/modules-load.d/modules.conf": "",
}


def block(*lines: str) -> str:
    """An environment block of GRUB."""
    text = "".join(f"{line}\n" for line in ("# GRUB Environment Block", *lines))
    return text + "#" * (1024 - len(text))


def entry(version: str, options: str, home: str = "") -> str:
    return (
        f"title      Some Linux\nversion    {version}\noptions    {options}\n"
        f"linux      {home}/{version}/linux\ninitrd     {home}/{version}/initrd\n"
    )


SYSTEMD_BOOT = {
    "/boot/efi/EFI/systemd/systemd-bootx64.efi": "",
    "/boot/efi/loader/entries/abc-6.1.conf": entry("6.1", "root=UUID=1 ro quiet"),
    "/boot/efi/loader/entries/abc-6.12+3.conf": entry("6.12", "root=UUID=1 ro  quiet"),
    "/boot/efi/6.1/linux": "",
    "/boot/efi/6.1/initrd": "",
    "/boot/efi/6.12/linux": "",
    "/boot/efi/6.12/initrd": "",
}
RHEL = {
    "/boot/grub2/grub.cfg": "load_env\nblscfg\n",
    "/boot/grub2/grubenv": block("saved_entry=x", "boot_success=0"),
    "/etc/default/grub": 'GRUB_CMDLINE_LINUX="crashkernel=1G quiet"\nGRUB_ENABLE_BLSCFG=true\n',
    "/boot/loader/entries/0123-5.14.0.conf": (
        "title Red Hat Enterprise Linux (5.14.0) 9.4 (Plow)\nversion 5.14.0\n"
        "linux /vmlinuz-5.14.0\ninitrd /initramfs-5.14.0.img $tuned_initrd\n"
        "options root=/dev/mapper/rhel-root ro quiet $tuned_params\ngrub_users $grub_users\n"
    ),
    "/boot/loader/entries/0123-0-rescue.conf": (
        "title Rescue\nlinux /vmlinuz-0-rescue\ninitrd /initramfs-0-rescue.img\n"
        "options root=/dev/mapper/rhel-root ro quiet\n"
    ),
    "/boot/vmlinuz-5.14.0": "",
    "/boot/initramfs-5.14.0.img": "",
    "/boot/vmlinuz-0-rescue": "",
    "/boot/initramfs-0-rescue.img": "",
}
RHEL_8 = RHEL | {
    "/boot/grub2/grubenv": block(
        "saved_entry=x", "kernelopts=root=/dev/mapper/rhel-root ro quiet", "boot_success=0"
    ),
    "/boot/loader/entries/0123-5.14.0.conf": RHEL["/boot/loader/entries/0123-5.14.0.conf"].replace(
        "root=/dev/mapper/rhel-root ro quiet", "$kernelopts"
    ),
}
HARVESTER = {
    "/etc/cos/bootargs.cfg": (
        'set console_params="console=tty1"\nif [ -n "$recovery_label" ]; then\n'
        '  set kernelcmd="$console_params root=live:LABEL=$recovery_label panic=0"\nelse\n'
        '  set kernelcmd="$console_params root=LABEL=$state_label cos-img/filename=$img \\\n'
        '    quiet panic=0 $third_party_kernel_args"\nfi\n'
    ),
    "/oem/grubenv": block("third_party_kernel_args=multipath=off", "saved_entry=cos"),
}
SUSE = {
    "/etc/default/grub": 'GRUB_CMDLINE_LINUX=""\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"',
    "/boot/vmlinuz-6.4": "",
    "/boot/initrd-6.4": "",
}


class Tree(NamedTuple):
    loader: LoaderName
    files: Mapping[str, str]


TREES = {
    "systemd-boot": Tree("systemd-boot", SYSTEMD_BOOT),
    "systemd-boot with cmdline": Tree(
        "systemd-boot", SYSTEMD_BOOT | {"/etc/kernel/cmdline": "root=UUID=1 ro quiet\n"}
    ),
    "systemd-boot, no last newline": Tree(
        "systemd-boot", {path: text.rstrip("\n") for path, text in SYSTEMD_BOOT.items()}
    ),
    "RHEL 9": Tree("bls", RHEL | {"/etc/kernel/cmdline": "root=/dev/mapper/rhel-root ro quiet"}),
    "RHEL 8": Tree("bls", RHEL_8),
    "Harvester": Tree("elemental", HARVESTER),
    "Harvester without arguments": Tree(
        "elemental", HARVESTER | {"/oem/grubenv": block("saved_entry=cos")}
    ),
    "SUSE": Tree("grub2", SUSE),
}


@pytest.fixture(params=TREES)
def tree(request: pytest.FixtureRequest) -> Tree:
    return TREES[request.param]


def host_of(files: Mapping[str, str]) -> SimulatedHost:
    host = SimulatedHost("node1", [], {p: t.encode() for p, t in {**KERNEL, **files}.items()})
    if "/boot/vmlinuz-6.4" in files:
        host.programs["grub2-mkconfig"] = Program(lambda argv: mkconfig(host, argv), lambda _: True)
        host.call(["grub2-mkconfig", "-o", "/boot/grub2/grub.cfg"])
    return host


def mkconfig(host: SimulatedHost, argv: Sequence[str]) -> tuple[int, str]:
    """What grub2-mkconfig makes of /etc/default/grub, as far as it is used here."""
    added = ""
    for line in host.read("/etc/default/grub").decode().splitlines():
        if line.startswith('GRUB_CMDLINE_LINUX="'):
            added = line.split('"')[1].replace("$GRUB_CMDLINE_LINUX", added)
    host.tree.put(
        argv[-1],
        (
            "### BEGIN /etc/grub.d/10_linux ###\nmenuentry 'SLES' {\n"
            f"\tlinux\t/boot/vmlinuz-6.4 root=UUID=1 ${{extra_cmdline}} {added} quiet\n"
            "\tinitrd\t/boot/initrd-6.4\n}\n### END /etc/grub.d/10_linux ###\n"
            "### BEGIN /etc/grub.d/40_custom ###\nmenuentry 'mine' {\n"
            "\tlinux /boot/vmlinuz-mine root=/dev/sdb1\n}\n### END /etc/grub.d/40_custom ###\n"
        ).encode(),
    )
    return 0, ""


def hardware_of(host: SimulatedHost, folder: Path) -> Hardware:
    return Hardware(host, host, open_state(str(folder), host))


async def apply(host: SimulatedHost, folder: Path, wanted: Wanted = WANTED) -> Preparation:
    hardware = hardware_of(host, folder)
    return await prepare(hardware, wanted, actor="test", reason="test", limits=LIMITS)


async def next_boot(host: SimulatedHost, folder: Path) -> list[tuple[str, ...]]:
    """The words of every kernel that may be started."""
    facts = await read_facts(hardware_of(host, folder), WANTED)
    return [of_kernel(entry.words) for entry in configured(facts).entries]


async def test_prepared_and_undone_to_the_byte(tree: Tree, tmp_path: Path) -> None:
    host = host_of(tree.files)
    before = disk(host)
    facts = await read_facts(hardware_of(host, tmp_path), WANTED)
    assert (facts.loader.name, facts.unreadable) == (tree.loader, {})

    staged = await apply(host, tmp_path)

    assert stage_of(staged) == "Staged"
    assert await verify(hardware_of(host, tmp_path), WANTED) == ()
    for words in await next_boot(host, tmp_path):
        assert [word for word in words if word in ADDED] == ADDED
        assert words.count("quiet") == 1
    writes = host.faults.count
    await apply(host, tmp_path)
    assert host.faults.count == writes

    await apply(host, tmp_path, NOTHING)

    assert disk(host) == before


async def test_an_own_word_in_one_entry_is_not_doubled_there_nor_removed(
    tree: Tree, tmp_path: Path
) -> None:
    own = {p: t.replace("quiet", "quiet intel_iommu=on", 1) for p, t in tree.files.items()}
    host = host_of(own)
    before = disk(host)

    await apply(host, tmp_path)

    for words in await next_boot(host, tmp_path):
        assert words.count("intel_iommu=on") == 1
    await apply(host, tmp_path, NOTHING)
    assert disk(host) == before


async def test_a_contradiction_names_the_file(tree: Tree, tmp_path: Path) -> None:
    off = {
        p: t.replace("quiet", "quiet iommu=off", 1).replace(
            'GRUB_CMDLINE_LINUX=""', 'GRUB_CMDLINE_LINUX="iommu=off"'
        )
        for p, t in tree.files.items()
    }
    host = host_of(off)
    before = disk(host)

    refused = await apply(host, tmp_path)

    [refusal] = [one for one in refused.refusals if one.reason == "KernelArgumentConflict"]
    place = refusal.words.partition("because ")[2].partition(" has")[0]
    assert b"iommu=off" in before[place]
    assert "iommu=off" in refusal.words
    assert disk(host) == before


@pytest.mark.parametrize("undo", [False, True], ids=["apply", "undo"])
async def test_killed_at_every_write(tree: Tree, tmp_path: Path, *, undo: bool) -> None:
    wanted = NOTHING if undo else WANTED
    reference = host_of(tree.files)
    if undo:
        await apply(reference, tmp_path, WANTED)
    first = reference.faults.count
    await apply(reference, tmp_path, wanted)
    ended, count = disk(reference), reference.faults.count - first

    for number, when in kills(count):
        host, folder = host_of(tree.files), tmp_path / f"{number}-{when}"
        if undo:
            await apply(host, folder, WANTED)
        host.faults.kill_at(number, when)
        with pytest.raises(Killed):
            await apply(host, folder, wanted)
        host.restart()
        rebooted = Hardware(host, host, open_state(str(folder), host))
        rebooted.state.boot = "another boot"
        await recover(rebooted, actor="test", limits=LIMITS)
        assert disk(host) == ended, (number, when)


async def test_a_kernel_that_is_installed_later_is_undone_too(tmp_path: Path) -> None:
    """Systemd's kernel-install takes the words over, and adds its own after them."""
    cmdline = {"/etc/kernel/cmdline": "root=UUID=1 ro quiet\n"}
    host = host_of(SYSTEMD_BOOT | cmdline)
    await apply(host, tmp_path)
    options = host.read("/etc/kernel/cmdline").decode().strip()
    new = "/boot/efi/loader/entries/abc-6.99.conf"
    host.replace(new, entry("6.99", f"{options} systemd.machine_id=abc"))
    assert "6.99/linux, which an entry starts, is not there" in "; ".join(
        await verify(hardware_of(host, tmp_path), WANTED)
    )
    for name in ("linux", "initrd"):
        host.replace(f"/boot/efi/6.99/{name}", "")
    assert await verify(hardware_of(host, tmp_path), WANTED) == ()

    await apply(host, tmp_path, NOTHING)

    words = split(host.read(new).decode())
    assert "systemd.machine_id=abc" in words
    assert not set(ADDED) & set(words)


async def test_a_kernel_that_is_installed_without_the_words_gets_them(tmp_path: Path) -> None:
    """As between the change and the reboot, where the installer takes what runs."""
    host = host_of(SYSTEMD_BOOT)
    await apply(host, tmp_path)
    new = "/boot/efi/loader/entries/abc-6.99.conf"
    host.replace(new, entry("6.99", "root=UUID=1 ro quiet").replace("/6.99/", "/6.12/"))
    assert "intel_iommu=on is missing for the next boot" in "; ".join(
        await verify(hardware_of(host, tmp_path), WANTED)
    )

    await apply(host, tmp_path)

    assert await verify(hardware_of(host, tmp_path), WANTED) == ()
    assert "intel_iommu=on" in host.read(new).decode()


@pytest.mark.parametrize(
    ("tree", "path", "content", "problem"),
    [
        ("RHEL 9", "/boot/initramfs-5.14.0.img", None, "/initramfs-5.14.0.img"),
        ("RHEL 9", "/boot/grub2/grubenv", "x", "/boot/grub2/grubenv is damaged"),
        ("RHEL 8", "/boot/grub2/grubenv", block("saved_entry=x"), "does not set"),
        ("Harvester", "/oem/grubenv", block("a=b")[:-1], "/oem/grubenv is damaged"),
        ("Harvester", "/oem/grubenv", None, "/oem/grubenv is not there"),
        ("Harvester", "/etc/cos/bootargs.cfg", "", "does not add $third_party_kernel_args"),
        ("systemd-boot", "/boot/efi/6.12/linux", None, "/6.12/linux"),
    ],
)
async def test_what_is_damaged_is_not_changed(
    tree: str, path: str, content: str | None, problem: str, tmp_path: Path
) -> None:
    host = host_of(TREES[tree].files)
    host.replace(path, content)
    before = disk(host)

    refused = await apply(host, tmp_path)

    assert stage_of(refused) == "Failed"
    assert any(problem in one.words for one in refused.refusals)
    assert disk(host) == before
    assert await verify(hardware_of(host, tmp_path), WANTED)


async def test_a_block_without_room_is_refused(tmp_path: Path) -> None:
    full = block(f"third_party_kernel_args={'x' * 900}")
    host = host_of(HARVESTER | {"/oem/grubenv": full})

    refused = await apply(host, tmp_path)

    assert "no room for" in refused.refusals[0].words
    assert host.read("/oem/grubenv").decode() == full


async def test_entries_that_another_program_copies_elsewhere_are_not_changed(
    tmp_path: Path,
) -> None:
    host = host_of(SYSTEMD_BOOT | {"/etc/kernel/proxmox-boot-uuids": "1234-ABCD\n"})

    [refusal] = (await apply(host, tmp_path)).refusals

    assert refusal.reason == "BootLoaderUnknown"


async def test_an_unknown_loader_is_refused_with_the_words_to_add(tmp_path: Path) -> None:
    host = host_of({"/boot/extlinux/extlinux.conf": "label linux\n"})
    before = disk(host)

    refused = await apply(host, tmp_path)

    [refusal] = refused.refusals
    assert refusal.reason == "BootLoaderUnknown"
    assert refusal.words.endswith(": " + " ".join(ADDED))
    assert disk(host) == before


async def test_several_loaders_are_told_apart_by_what_firmware_used(tmp_path: Path) -> None:
    used = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
    both = SYSTEMD_BOOT | RHEL
    for name, loader in (("systemd-boot 255", "systemd-boot"), ("GRUB 2.12", "bls")):
        host = host_of(both)
        host.tree.put(used, b"\x06\0\0\0" + f"{name}\0".encode("utf-16-le"))
        facts = await read_facts(hardware_of(host, tmp_path))
        assert facts.loader.name == loader


async def test_what_cannot_be_read_is_not_taken_for_absent(tmp_path: Path) -> None:
    host = host_of(RHEL)
    host.faults.unreadable("/boot/loader/entries/0123-5.14.0.conf", 13)

    preparation = decide(WANTED, await read_facts(hardware_of(host, tmp_path), WANTED))

    [refusal] = preparation.refusals
    assert refusal.reason == "BootConfigurationUnreadable"
    assert "0123-5.14.0.conf: Permission denied" in refusal.words


async def test_a_file_of_modprobe_d_hides_those_of_its_name(tmp_path: Path) -> None:
    host = host_of(RHEL)
    host.tree.put("/etc/modprobe.d/a.conf", b"# caf\xe9\nblacklist nvidia-fb\n")
    host.tree.put("/usr/lib/modprobe.d/a.conf", b"blacklist nouveau\n")

    facts = await read_facts(hardware_of(host, tmp_path), WANTED)

    assert facts.blocked == {"nvidia_fb"}
    assert not facts.unreadable
