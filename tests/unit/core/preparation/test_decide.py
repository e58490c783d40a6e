"""What is missing on a host, from facts alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.plan import SetBootArguments, undo
from laneway.core.preparation.arguments import of_kernel, split
from laneway.core.preparation.configured import configured
from laneway.core.preparation.decide import Preparation, decide, stage_of, unfit
from laneway.core.preparation.facts import BootFacts, BootLoader
from laneway.core.preparation.wanted import NOTHING, HugePages, Wanted

ENTRY = "/boot/loader/entries/a.conf"


def host(options: str = "root=UUID=1 ro", **more: Any) -> BootFacts:
    """An Intel server without IOMMU, booted by systemd-boot."""
    text = f"title a\nlinux /linux\noptions {options}\n"
    facts = {
        "processor": "GenuineIntel",
        "command_line": options,
        "iommu_tables": ("DMAR",),
        "modules": {"vfio-pci": "loaded"},
        "huge_pages": {"2M": 0, "1G": 0},
        "loader": BootLoader(name="systemd-boot", files={ENTRY: text}),
    }
    return BootFacts(**facts | more)


def written(facts: BootFacts, preparation: Preparation) -> BootFacts:
    """The host after the steps."""
    files = dict(facts.loader.files)
    for step in preparation.plan.steps:
        assert isinstance(step, SetBootArguments)
        assert files.get(step.path) == step.before
        files.pop(step.path, None)
        if step.after is not None:
            files[step.path] = step.after
    return msgspec.structs.replace(facts, loader=msgspec.structs.replace(facts.loader, files=files))


def iommu(facts: BootFacts) -> tuple[str, str]:
    [found] = decide(Wanted(iommu=True), facts).requirements
    return found.state, found.message


def test_an_intel_processor_needs_a_word() -> None:
    assert iommu(host())[0] == "Missing"


def test_the_table_of_the_firmware_tells_whose_iommu_it_is() -> None:
    assert iommu(host(processor="CentaurHauls"))[0] == "Missing"
    assert "AMD-Vi" in iommu(host(processor="AuthenticAMD", iommu_tables=("IVRS",)))[1]


@pytest.mark.parametrize("processor", ["AuthenticAMD", ""])
def test_others_need_none_where_the_iommu_is_on(processor: str) -> None:
    facts = host(processor=processor, iommu_groups=20)
    assert iommu(facts)[0] == "Met"
    assert decide(Wanted(iommu=True), facts).plan.steps == ()


def test_a_kernel_that_uses_it_unasked_needs_no_word() -> None:
    assert decide(Wanted(iommu=True), host(iommu_groups=20)).plan.steps == ()


def test_a_word_that_runs_and_is_gone_from_the_files_is_written_again() -> None:
    """An administrator typed it at the boot menu, or removed it since."""
    facts = host(iommu_groups=20, command_line="root=UUID=1 ro intel_iommu=on")
    state, message = iommu(facts)
    assert state == "Missing"
    assert "which the kernel runs with now, is missing for the next boot" in message


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"iommu_tables": ()}, "Enable VT-d in the firmware"),
        ({"iommu_tables": (), "processor": "AuthenticAMD"}, "Enable the IOMMU (AMD-Vi)"),
        ({"processor": "AuthenticAMD", "iommu_tables": ("IVRS",)}, "dmesg"),
        ({"options": "root=1 intel_iommu=on"}, "does not use the IOMMU that the firmware offers"),
    ],
)
def test_what_only_firmware_can_change_is_impossible(more: dict[str, Any], said: str) -> None:
    facts = host(**more)
    state, message = iommu(facts)
    assert state == "Impossible"
    assert said in message
    assert stage_of(decide(Wanted(iommu=True), facts)) == "Failed"
    assert stage_of(decide(NOTHING, facts)) == "Ready"


def test_tables_that_cannot_be_listed_are_not_absent() -> None:
    facts = host(iommu_tables=(), unreadable={"/sys/firmware/acpi/tables": "Permission denied"})
    assert iommu(facts)[0] == "Missing"


def test_an_iommu_that_is_off_now_and_on_at_the_next_boot_needs_a_reboot() -> None:
    facts = host(
        processor="AuthenticAMD",
        iommu_tables=("IVRS",),
        command_line="root=UUID=1 amd_iommu=off",
    )
    assert iommu(facts)[0] == "RebootNeeded"


@pytest.mark.parametrize(
    ("options", "pages", "word"),
    [
        ("hugepagesz=1G hugepages=8", HugePages("1G", 4), "hugepages=8"),
        ("hugepages=512", HugePages("1G", 4), "hugepages=512"),
    ],
)
def test_other_counts_of_huge_pages_are_a_contradiction(
    options: str, pages: HugePages, word: str
) -> None:
    [refusal] = decide(Wanted(huge_pages=(pages,)), host(options)).refusals
    assert refusal.reason == "KernelArgumentConflict"
    assert f"{ENTRY} has {word}" in refusal.words


def test_huge_pages_that_memory_did_not_give_are_said() -> None:
    wanted = Wanted(huge_pages=(HugePages("1G", 4),))
    facts = host("ro hugepagesz=1G hugepages=4", huge_pages={"1G": 3})
    [found] = decide(wanted, facts).requirements
    assert (found.state, "3 of 4 pages" in found.message) == ("Impossible", True)
    [found] = decide(wanted, host(huge_pages={"2M": 0})).requirements
    assert "no pages of 1G, only 2M" in found.message


def test_a_host_keeps_memory_for_itself() -> None:
    pages = (HugePages("1G", 50), HugePages("2M", 1024))
    assert decide(Wanted(huge_pages=pages), host(memory=64 * 1024)).refusals == ()

    more = (HugePages("1G", 56), HugePages("2M", 1024))
    for refusal in (found := decide(Wanted(huge_pages=more), host(memory=64 * 1024)).refusals):
        assert "59392 MiB of huge pages leave less than 6553 of 65536 MiB" in refusal.words
    assert len(found) == 2
    assert decide(Wanted(huge_pages=(HugePages("1G", 2),)), host(memory=3000)).refusals


@pytest.mark.parametrize(
    ("state", "blocked", "expected"),
    [
        ("missing", (), "Met"),
        ("loadable", (), "Missing"),
        ("loadable", ("nouveau",), "Met"),
        ("loaded", ("nouveau",), "Missing"),
        ("built in", (), "Impossible"),
    ],
)
def test_drivers_to_block(state: str, blocked: tuple[str, ...], expected: str) -> None:
    facts = host(modules={"nouveau": state}, blocked=frozenset(blocked))
    [found] = decide(Wanted(blocked_drivers=("nouveau",)), facts).requirements
    assert (found.name, found.state) == ("BlockedDriver/nouveau", expected)


def test_one_requirement_that_is_impossible_keeps_all_from_being_written() -> None:
    wanted = Wanted(iommu=True, vfio_at_boot=True, kernel_arguments=("a=1",))
    found = decide(wanted, host(modules={"vfio-pci": "missing"}))
    assert found.plan.steps == ()
    assert [one.state for one in found.requirements] == ["Missing", "Impossible", "Missing"]
    assert [one.name for one in found.requirements][1] == "VfioModules"


ADMINISTRATORS = st.lists(
    st.sampled_from(
        ["ro", "quiet", "a=1", "intel_iommu=on", "iommu=pt", "modprobe.blacklist=x,nouveau",
         "hugepagesz=1G hugepages=4", "hugepagesz=2M hugepages=4", 'dyndbg="file x +p"', "b"]
    ),
    max_size=6,
    unique=True,
)  # fmt: skip
REQUESTS = st.builds(
    Wanted,
    iommu=st.booleans(),
    iommu_passthrough=st.booleans(),
    blocked_drivers=st.sets(st.sampled_from(["nouveau", "nvidiafb"])).map(tuple),
    huge_pages=st.sampled_from([(), (HugePages("1G", 4),), (HugePages("2M", 4),)]),
    kernel_arguments=st.sets(st.sampled_from(["a=1", "b", "c=2", "iommu=pt,strict"])).map(tuple),
)


@given(ADMINISTRATORS, REQUESTS, REQUESTS)
def test_laws_of_every_change(own: list[str], one: Wanted, other: Wanted) -> None:
    """Own words stay first and as they are, none is doubled, and undo leaves every byte."""
    facts = host(
        " ".join(["root=UUID=1", *own]),
        modules={"nouveau": "loadable", "nvidiafb": "loadable", "vfio-pci": "loaded"},
    )
    before = facts
    for wanted in (one, other):
        preparation = decide(wanted, facts)
        if preparation.refusals:
            # "The kernel does not use it" though it has the word: nothing is written.
            assert not preparation.plan.steps
            continue
        after = written(facts, preparation)
        for step in preparation.plan.steps:
            assert undo(undo(step) or step) == step
        [entry] = configured(after).entries
        mine = split(before.command_line)
        assert entry.words[: len(mine)] == mine
        added = entry.words[len(mine) :]
        plain = [word for word in added if not word.startswith("hugepages=")]
        assert len(set(plain)) == len(plain)
        assert not set(plain) & set(mine)
        assert of_kernel(entry.words) == entry.words
        settled = decide(wanted, after)
        assert settled.plan.steps == ()
        assert "Missing" not in {each.state for each in settled.requirements}
        facts = after
    facts = written(facts, decide(NOTHING, facts))
    assert facts == before


def test_why_a_host_must_not_be_rebooted_is_said_at_once() -> None:
    facts = host(loader=BootLoader(name="systemd-boot", missing=("/linux",)))
    problems = "; ".join(unfit(Wanted(iommu=True), facts))
    assert "/linux, which an entry starts, is not there" in problems
    assert "boots this system" in problems
    assert "Iommu: intel_iommu=on is missing for the next boot" in problems
