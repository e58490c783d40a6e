"""What may be asked of a host."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.preparation.arguments import split
from laneway.core.preparation.wanted import HugePages, Wanted, invalid, usual


def test_the_usual_and_a_full_one_are_valid() -> None:
    full = Wanted(
        iommu=True,
        iommu_passthrough=True,
        vfio_at_boot=True,
        blocked_drivers=("nouveau", "snd-hda-intel"),
        huge_pages=(HugePages("1G", 16), HugePages("2M", 512)),
        kernel_arguments=("default_hugepagesz=1G", "pcie_aspm=off", "kvm.ignore_msrs=1"),
    )

    assert invalid(usual(nvidia=True)) == ()
    assert invalid(full) == ()


@pytest.mark.parametrize(
    "word",
    [
        "a\nb", "a b", 'a="b', "a=$b", "a=`b`", "a\\", "a=\x07", "", "--", "=x", "-s", "#a", "a;b",
        "root=/dev/sda", "init=/bin/sh", "BOOT_IMAGE=x", "rd.break", "systemd.unit=rescue.target",
        "single", "1", "mem=1G", "resume=UUID=1", "hugepages=4", "x" * 300,
    ],
)  # fmt: skip
def test_a_word_that_harms_is_named(word: str) -> None:
    [problem] = invalid(Wanted(kernel_arguments=(word,)))
    assert problem.isprintable()
    assert repr(word[:60]) in problem


@given(st.text(max_size=12))
def test_whatever_is_valid_is_one_plain_word(text: str) -> None:
    if not invalid(Wanted(kernel_arguments=(text,))):
        assert split(text) == (text,)
        assert not set(text) & set("\"'`$\\#;&|<>() ")


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(blocked_drivers=("../nouveau",)),
        Wanted(blocked_drivers=("a,b",)),
        Wanted(blocked_drivers=("vfio-pci",)),
        Wanted(huge_pages=(HugePages("3M", 1),)),
        Wanted(huge_pages=(HugePages("2M", 0),)),
        Wanted(huge_pages=(HugePages("2M", 1), HugePages("2M", 2))),
        Wanted(iommu=True, kernel_arguments=("intel_iommu=off",)),
        Wanted(iommu=True, kernel_arguments=("intel-iommu=sm_on,off",)),
        Wanted(kernel_arguments=("a=1",) * 33),
    ],
)
def test_the_rest_is_checked_too(wanted: Wanted) -> None:
    assert len(invalid(wanted)) == 1


@pytest.mark.parametrize(
    "word",
    ["module_blacklist=nvme", "modprobe.blacklist=vfio-pci", "initcall_blacklist=x", "noefi"],
)
def test_words_that_could_keep_the_host_from_its_disk_are_refused(word: str) -> None:
    assert invalid(Wanted(kernel_arguments=(word,)))


def test_the_hosts_own_devices_are_translated_or_not() -> None:
    assert invalid(Wanted(iommu_passthrough=True, kernel_arguments=("iommu=nopt",)))
    assert not invalid(Wanted(kernel_arguments=("iommu=nopt",)))
