"""A host as its installer left it is prepared, rebooted, and made again what it was.

On a simulated host with Debian's GRUB. What boots is whole at every moment: before each write and
after it the configuration is the old one or the new one, to the byte.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laneway.core.preparation.decide import Preparation, decide, stage_of
from laneway.core.preparation.wanted import NOTHING, HugePages, Wanted
from laneway.host.boot.facts import read_facts
from laneway.host.boot.prepare import prepare
from laneway.host.boot.reboot import reboot
from laneway.host.boot.verify import verify
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import StepError
from laneway.host.plans.operations.operation import Limits
from laneway.host.plans.recover import recover
from laneway.host.plans.state import open_state
from laneway.sim.faults import Killed
from laneway.sim.host import SimulatedHost
from laneway.sim.programs import Program
from laneway.sim.spec import build, parse_spec
from support.cut_disks import disk, kills

WANTED = Wanted(
    iommu=True,
    iommu_passthrough=True,
    vfio_at_boot=True,
    blocked_drivers=("nouveau",),
    huge_pages=(HugePages("1G", 4),),
)
CONFIG = "/boot/grub/grub.cfg"
DROP_IN = "/etc/default/grub.d/90-laneway.cfg"
LIMITS = Limits(settle_seconds=0.0, aftermath_seconds=0.0, poll_seconds=0.0)


@pytest.fixture
def host() -> SimulatedHost:
    return build(parse_spec("a2,iommu=off"), "node1")


def hardware_of(host: SimulatedHost, folder: Path) -> Hardware:
    """As a process that starts now sees it."""
    return Hardware(host, host, open_state(str(folder), host))


async def apply(host: SimulatedHost, folder: Path, wanted: Wanted) -> Preparation:
    hardware = hardware_of(host, folder)
    return await prepare(hardware, wanted, actor="test", reason="test", limits=LIMITS)


async def look(host: SimulatedHost, folder: Path, wanted: Wanted = WANTED) -> Preparation:
    return decide(wanted, await read_facts(hardware_of(host, folder), wanted))


async def test_from_the_installer_to_ready_and_back(host: SimulatedHost, tmp_path: Path) -> None:
    before = disk(host)
    assert stage_of(await look(host, tmp_path)) == "Planned"
    assert await verify(hardware_of(host, tmp_path), WANTED)
    assert disk(host) == before  # to look changes nothing

    staged = await apply(host, tmp_path, WANTED)

    assert stage_of(staged) == "Staged"
    assert await verify(hardware_of(host, tmp_path), WANTED) == ()
    assert not host.exists("/sys/kernel/iommu_groups")
    await reboot(hardware_of(host, tmp_path))
    ready = await look(host, tmp_path)
    assert stage_of(ready) == "Ready"
    assert {one.state for one in ready.requirements} == {"Met"}
    assert host.names("/sys/kernel/iommu_groups")
    assert host.exists("/sys/bus/pci/drivers/vfio-pci")
    words = host.read("/proc/cmdline").decode().split()
    assert len(set(words)) == len(words)

    undone = await apply(host, tmp_path, NOTHING)

    assert stage_of(undone) == "Staged"  # the kernel still runs with what is removed
    assert disk(host) == before
    await reboot(hardware_of(host, tmp_path))
    assert stage_of(decide(NOTHING, await read_facts(hardware_of(host, tmp_path)))) == "Ready"
    assert not host.exists("/sys/kernel/iommu_groups")


async def test_what_is_ready_is_written_once(host: SimulatedHost, tmp_path: Path) -> None:
    await apply(host, tmp_path, WANTED)
    writes = host.faults.count

    await apply(host, tmp_path, WANTED)

    assert host.faults.count == writes


async def test_what_an_administrator_wrote_is_neither_changed_nor_doubled(
    tmp_path: Path,
) -> None:
    """These hosts have `intel_iommu=on iommu=pt` in /etc/default/grub."""
    host = build(parse_spec("a2"), "node1")
    before = host.read("/etc/default/grub")

    await apply(host, tmp_path, WANTED)
    await reboot(hardware_of(host, tmp_path))

    assert host.read("/etc/default/grub") == before
    words = host.read("/proc/cmdline").decode().split()
    assert words.count("intel_iommu=on") == words.count("iommu=pt") == 1
    assert "modprobe.blacklist=nouveau" in words
    assert stage_of(await look(host, tmp_path)) == "Ready"


def edit(host: SimulatedHost, old: str, new: str, path: str = "/etc/default/grub") -> None:
    """As an administrator does, with update-grub."""
    host.replace(path, host.read(path).decode().replace(old, new))
    assert host.call(["update-grub"]).status == 0


async def test_a_contradiction_is_refused_with_word_and_file(
    host: SimulatedHost, tmp_path: Path
) -> None:
    edit(host, "console=tty0", "console=tty0 intel_iommu=off")
    # What a package left there is read by no program, and may be of any encoding.
    host.tree.put("/etc/default/grub.d/own.cfg.dpkg-old", b"# \xe4\n")
    before = disk(host)

    refused = await apply(host, tmp_path, WANTED)

    assert stage_of(refused) == "Failed"
    [refusal] = refused.refusals
    assert refusal.reason == "KernelArgumentConflict"
    assert "/etc/default/grub has intel_iommu=off" in refusal.words
    assert disk(host) == before


async def test_what_all_but_recovery_entries_have_is_not_doubled(
    host: SimulatedHost, tmp_path: Path
) -> None:
    edit(host, "GRUB_TIMEOUT=5", "GRUB_CMDLINE_LINUX_DEFAULT='intel_iommu=on'")

    await apply(host, tmp_path, WANTED)
    await reboot(hardware_of(host, tmp_path))

    assert host.read("/proc/cmdline").decode().split().count("intel_iommu=on") == 1


async def test_an_own_list_of_blocked_modules_stays(host: SimulatedHost, tmp_path: Path) -> None:
    edit(host, "console=tty0", "console=tty0 modprobe.blacklist=pcspkr,floppy")

    await apply(host, tmp_path, WANTED)
    await reboot(hardware_of(host, tmp_path))

    words = host.read("/proc/cmdline").decode().split()
    assert "modprobe.blacklist=pcspkr,floppy" in words
    assert "modprobe.blacklist=nouveau" in words


@pytest.mark.parametrize(
    ("driver", "why"),
    [("nvme", "drives 0000:01:00.0, which the node needs"), ("ext4", "is in use (2 users)")],
)
async def test_a_driver_that_the_node_needs_is_not_blocked(
    host: SimulatedHost, tmp_path: Path, driver: str, why: str
) -> None:
    host.tree.put("/sys/module/ext4/refcnt", b"2\n")
    before = disk(host)

    refused = await apply(host, tmp_path, Wanted(iommu=True, blocked_drivers=("nouveau", driver)))

    [refusal] = refused.refusals
    assert refusal.reason == "RequirementImpossible"
    assert f"BlockedDriver/{driver} is not possible on this host: {driver} {why}" in refusal.words
    assert disk(host) == before


async def test_less_is_wanted(host: SimulatedHost, tmp_path: Path) -> None:
    await apply(host, tmp_path, WANTED)
    await apply(host, tmp_path, Wanted(iommu=True))
    await reboot(hardware_of(host, tmp_path))

    assert host.read("/proc/cmdline").decode().split()[-1] == "intel_iommu=on"
    assert not host.exists("/etc/modules-load.d/laneway.conf")


# ------------------------------------------------------------------------------------- what fails


def cut_off(host: SimulatedHost, made: str) -> str:
    return "".join(made.splitlines(keepends=True)[:-3])


def without_kernel(host: SimulatedHost, made: str) -> str:
    return made.replace("/boot/vmlinuz-", "/boot/vmlinuz-9")


def without_initrd(host: SimulatedHost, made: str) -> str:
    return made.replace("/boot/initrd.img-", "/boot/initrd.img-9")


def without_words(host: SimulatedHost, made: str) -> str:
    return made.replace("intel_iommu=on", "")


def empty(host: SimulatedHost, made: str) -> str:
    return ""


@pytest.mark.parametrize("damage", [cut_off, without_kernel, without_initrd, without_words, empty])
async def test_a_damaged_configuration_never_takes_the_place_of_the_old(
    host: SimulatedHost, tmp_path: Path, damage: Callable[[SimulatedHost, str], str]
) -> None:
    before = disk(host)
    program = host.programs["grub-mkconfig"]

    def broken(argv: Any) -> tuple[int, str]:
        ended = program.run(argv)
        host.tree.put(argv[-1], damage(host, host.read(argv[-1]).decode()).encode())
        return ended

    host.programs["grub-mkconfig"] = Program(broken, program.changes)

    with pytest.raises(StepError, match="would not boot as planned"):
        await apply(host, tmp_path, WANTED)

    assert disk(host) == before
    assert stage_of(await look(host, tmp_path)) == "Planned"


@pytest.mark.parametrize("number", range(2, 7))
async def test_a_disk_or_program_that_fails_leaves_everything_as_it_was(
    host: SimulatedHost, tmp_path: Path, number: int
) -> None:
    before = disk(host)
    host.faults.fail_write(number, errno.ENOSPC)

    with pytest.raises(StepError, match="ENOSPC"):
        await apply(host, tmp_path, WANTED)

    assert disk(host) == before


async def test_damage_after_the_change_is_found_before_the_reboot(
    host: SimulatedHost, tmp_path: Path
) -> None:
    await apply(host, tmp_path, WANTED)
    whole = host.read(CONFIG).decode()
    initrd = next(path for path in disk(host) if "initrd" in path)

    async def problems() -> str:
        return "; ".join(await verify(hardware_of(host, tmp_path), WANTED))

    host.replace(CONFIG, whole[: len(whole) // 2])
    assert "cut off" in await problems()
    host.replace(CONFIG, whole.replace("iommu=pt", ""))
    assert "iommu=pt is missing for the next boot" in await problems()
    host.replace(CONFIG, whole)
    host.replace(initrd, None)
    assert f"{initrd}, which an entry starts, is not there" in await problems()
    host.faults.unreadable(CONFIG, errno.EIO)
    assert f"{CONFIG}: Input/output error" in await problems()


# ------------------------------------------------------------------------------- what is killed


@pytest.mark.parametrize("undo", [False, True], ids=["apply", "undo"])
@pytest.mark.parametrize("rebooted", [False, True], ids=["restarted", "rebooted"])
async def test_killed_at_every_write(tmp_path: Path, *, undo: bool, rebooted: bool) -> None:
    """The next process, in the same boot or after one, ends what was begun."""
    wanted = NOTHING if undo else WANTED
    reference = build(parse_spec("plain,iommu=off"), "node1")
    old = disk(reference)
    if undo:
        await apply(reference, tmp_path / "reference", WANTED)
    begun = disk(reference)
    writes = reference.faults.count
    await apply(reference, tmp_path / "reference", wanted)
    writes = reference.faults.count - writes
    ended = disk(reference)
    assert writes >= 5

    for number, when in kills(writes):
        host = build(parse_spec("plain,iommu=off"), "node1")
        folder = tmp_path / f"{number}-{when}"
        if undo:
            await apply(host, folder, WANTED)
        host.faults.kill_at(number, when)
        with pytest.raises(Killed):
            await apply(host, folder, wanted)
        host.restart()
        assert host.read(CONFIG) in {begun[CONFIG], ended[CONFIG]}
        if rebooted:
            assert host.call(["systemctl", "reboot"]).status == 0
        [problem] = await verify(hardware_of(host, folder), wanted)
        assert "was interrupted" in problem
        [recovered] = await recover(hardware_of(host, folder), actor="test", limits=LIMITS)

        assert recovered.outcome == "finished", (number, when)
        assert disk(host) == ended, (number, when)
        # A module that was loaded in the boot before is loaded again.
        assert stage_of(await apply(host, folder, wanted)) in ("Staged", "Ready")
    if undo:
        assert ended == old
