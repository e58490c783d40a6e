"""Kernel command lines, read as the kernel reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.preparation import arguments

PLAIN = st.from_regex(r"[a-z][a-z_.-]{0,8}(=[a-z0-9,.]{0,8})?", fullmatch=True)
QUOTED = st.builds(
    lambda name, value: f'{name}="{value}"',
    st.from_regex(r"[a-z]{1,6}", fullmatch=True),
    st.text("ab =-", max_size=8),
)
WORDS = st.lists(st.one_of(PLAIN, QUOTED), max_size=8)


@given(WORDS, st.sampled_from([" ", "  ", "\t", " \n"]))
def test_words_are_found_again_however_they_are_spaced(words: list[str], blank: str) -> None:
    assert arguments.split(blank + blank.join(words) + blank) == tuple(words)


@given(WORDS, st.lists(PLAIN, max_size=4, unique=True))
def test_what_is_added_comes_off_again(words: list[str], added: list[str]) -> None:
    """Also where the administrator wrote the same word: that one stays where it is."""
    assert arguments.without((*words, *added), added) == tuple(words)


@given(PLAIN, WORDS)
def test_a_word_that_is_there_contradicts_nothing(word: str, words: list[str]) -> None:
    alone = [one for one in words if arguments.name_of(one) != arguments.name_of(word)]
    assert arguments.has((*alone, word), word)
    assert arguments.against((*alone, word), word) == ""


def test_dash_and_underscore_are_one_in_names_only() -> None:
    assert arguments.has(["default-hugepagesz=1G"], "default_hugepagesz=1G")
    assert not arguments.has(["root=a-b"], "root=a_b")


def test_what_follows_two_dashes_is_for_init() -> None:
    words = arguments.split("ro quiet -- intel_iommu=on")

    assert arguments.of_kernel(words) == ("ro", "quiet")
    assert arguments.of_kernel(arguments.split('ro x="a -- b"')) == ("ro", 'x="a -- b"')


@pytest.mark.parametrize(
    ("line", "wanted", "found"),
    [
        ("ro intel_iommu=off", "intel_iommu=on", "intel_iommu=off"),
        ("intel_iommu=sm_on,off", "intel_iommu=on", "intel_iommu=sm_on,off"),
        ("iommu=off", "intel_iommu=on", "iommu=off"),
        ("intel_iommu=off", "intel_iommu=on,sm_on", "intel_iommu=off"),
        ("intel_iommu=igfx_off", "intel_iommu=on", ""),
        ("iommu=nopt", "iommu=pt", "iommu=nopt"),
        ("iommu=soft", "iommu=pt", ""),
        ("default_hugepagesz=2M", "default_hugepagesz=1G", "default_hugepagesz=2M"),
        ("console=ttyS0", "console=tty0", ""),
        ("transparent-hugepage=never", "transparent_hugepage=always", "transparent-hugepage=never"),
    ],
)
def test_what_an_administrator_wrote_may_contradict(line: str, wanted: str, found: str) -> None:
    assert arguments.against(arguments.split(line), wanted) == found


def test_an_option_of_a_list_is_there() -> None:
    assert arguments.has(["intel_iommu=on,sm_on"], "intel_iommu=on")
    assert not arguments.has(["intel_iommu=sm_on"], "intel_iommu=on")
    assert arguments.has(["intel_iommu=on", "intel_iommu=strict,sm_on"], "intel_iommu=on,sm_on")
    assert not arguments.has(["intel_iommu=on"], "intel_iommu=on,sm_on")


def test_all_lists_of_blocked_modules_count() -> None:
    words = arguments.split("modprobe.blacklist=nouveau,nvidia-fb quiet modprobe.blacklist=snd_hda")

    assert arguments.blocked(words) == {"nouveau", "nvidia_fb", "snd_hda"}


def test_counts_of_huge_pages_belong_to_the_size_before_them() -> None:
    words = arguments.split("hugepages=3 hugepagesz=1g hugepages=8 hugepagesz=2M hugepages=512")

    assert arguments.huge_pages(words) == {"": "3", "1G": "8", "2M": "512"}
