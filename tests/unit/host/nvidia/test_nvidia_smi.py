"""What nvidia-smi prints, and what is made of it. Samples follow the program's documented form."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile, GpuModes
from laneway.core.pci import PciAddress
from laneway.host.nvidia import smi
from laneway.host.nvidia.modes import read_modes
from laneway.host.port import CommandMissingError, Completed

GPU = PciAddress.parse("0000:41:00.0")

PROFILES = """\
+-----------------------------------------------------------------------------+
| GPU instance profiles:                                                      |
| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                              Free/Total   GiB              CE    JPEG  OFA  |
|=============================================================================|
|   0  MIG 1g.5gb        19     5/7        4.75       No     14     0     0   |
|                                                             1     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 1g.5gb+me     20     0/1        4.75       No     14     1     0   |
|                                                             1     1     1   |
+-----------------------------------------------------------------------------+
|   0  MIG 3g.20gb        9     1/2        19.62      No     42     2     0   |
|                                                             3     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 7g.40gb        0     0/1        39.38      No     98     5     0   |
|                                                             7     1     1   |
+-----------------------------------------------------------------------------+
"""

PLACEMENTS = """\
GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID 20 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID  9 Placements: {0,4}:4
GPU  0 Profile ID  0 Placement : {0}:8
"""

INSTANCES = """\
+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
|   0  MIG 1g.5gb          19       11          4:1     |
+-------------------------------------------------------+
|   0  MIG 3g.20gb          9        2          0:4     |
+-------------------------------------------------------+
"""

COMPUTES = """\
+--------------------------------------------------------------------+
| Compute instances:                                                 |
| GPU     GPU       Name             Profile   Instance   Placement  |
|       Instance                       ID        ID       Start:Size |
|         ID                                                         |
|====================================================================|
|   0      2       MIG 1c.3g.20gb       0         0          0:1     |
+--------------------------------------------------------------------+
|   0      2       MIG 2c.3g.20gb       1         1          1:2     |
+--------------------------------------------------------------------+
"""

REPORT = """\

==============NVSMI LOG==============

Timestamp                                 : Sat Nov 21 18:00:00 2026
Driver Version                            : 580.105.06
vGPU Driver Capability
        Heterogenous Multi-vGPU           : Supported

Attached GPUs                             : 1
GPU 00000000:41:00.0
    Product Name                          : NVIDIA L40S
    vGPU Device Capability
        Fractional Multi-vGPU             : Not Supported
        Heterogeneous Time-Slice Profiles : Supported
        Heterogeneous Time-Slice Sizes    : Supported
    ECC Mode
        Current                           : Enabled
        Pending                           : Disabled
    MIG Mode
        Current                           : {mig}
        Pending                           : {mig}
    GPU Virtualization Mode
        Virtualization Mode               : Host VGPU
        Host VGPU Mode                    : SR-IOV
        vGPU Heterogeneous Mode           : {mode}
    Processes                             : None
"""


def report(mode: str = "N/A", mig: str = "N/A") -> str:
    return REPORT.format(mode=mode, mig=mig)


class Program:
    """An executor whose nvidia-smi answers by what is requested."""

    def __init__(self, **answers: Completed | Exception) -> None:
        self.answers = answers
        self.asked: list[tuple[str, ...]] = []

    async def has(self, program: str) -> bool:
        return bool(program)

    async def run(self, argv: Sequence[str], seconds: float) -> Completed:
        assert seconds > 0
        self.asked.append(tuple(argv))
        name = next((name for name in self.answers if any(name in word for word in argv)), "q")
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer


def ok(text: str) -> Completed:
    return Completed(0, text)


NONE_FOUND = Completed(6, "No GPU instances found: Not Found\n")


# ----------------------------------------------------------------------------------------- samples


def test_profiles_and_their_placements_are_joined() -> None:
    found = smi.parse_profiles(PROFILES, PLACEMENTS)

    assert found == (
        GpuInstanceProfile("1g.5gb", 19, 7, (0, 1, 2, 3, 4, 5, 6), 1, (0, 0, 0, 0)),
        GpuInstanceProfile("1g.5gb+me", 20, 1, (0, 1, 2, 3, 4, 5, 6), 1, (1, 0, 1, 1)),
        GpuInstanceProfile("3g.20gb", 9, 2, (0, 4), 4, (2, 0, 0, 0)),
        GpuInstanceProfile("7g.40gb", 0, 1, (0,), 8, (5, 0, 1, 1)),
    )


def test_profiles_without_their_second_line_have_no_engines() -> None:
    first_lines = [line for line in PROFILES.splitlines() if "MIG" in line]

    found = smi.parse_profiles("\n".join(("GPU instance profiles:", *first_lines)), PLACEMENTS)

    assert [(one.name, one.engines) for one in found] == [
        ("1g.5gb", ()),
        ("1g.5gb+me", ()),
        ("3g.20gb", ()),
        ("7g.40gb", ()),
    ]


def test_instances_come_by_placement_with_their_compute_instances() -> None:
    assert smi.parse_instances(INSTANCES, COMPUTES) == (
        GpuInstance(2, "3g.20gb", 9, 0, 4, 2),
        GpuInstance(11, "1g.5gb", 19, 4, 1, 0),
    )


@pytest.mark.parametrize(("text", "mode"), [("Enabled", True), ("Disabled", False), ("N/A", None)])
def test_the_mig_mode_is_a_row_below_its_heading(text: str, mode: bool | None) -> None:
    assert smi.parse_mig_mode(report(mig=text)) is mode
    older = report(mig=text).replace("    MIG Mode\n", "")
    assert smi.parse_mig_mode(older) is None


@pytest.mark.parametrize(
    ("word", "mode"),
    [("Enabled", True), ("Disabled", False), ("N/A", None), ("Not Supported", None)],
)
def test_mixed_size_is_one_row_among_many_that_look_alike(word: str, mode: bool | None) -> None:
    assert smi.parse_mixed(report(word)) is mode


GARBAGE = "\x1b7\ufffd\ufffdq9 |\n second line"


@pytest.mark.parametrize(
    ("read", "line"),
    [
        (lambda: smi.parse_mig_mode(GARBAGE), "q9 |"),
        (lambda: smi.parse_mixed(GARBAGE), "q9 |"),
        (lambda: smi.parse_mixed(""), "is empty"),
        (lambda: smi.parse_mixed("No devices were found\n"), "No devices were found"),
        (lambda: smi.parse_mig_mode(report(mig="Unknown Error")), ": Unknown Error"),
        (lambda: smi.parse_mixed(report("Enabled?")), ": Enabled?"),
        (lambda: smi.parse_instance_mixed(GARBAGE), "q9 |"),
        (lambda: smi.parse_instances(GARBAGE), "q9 |"),
        (lambda: smi.parse_instances(""), "is empty"),
        (lambda: smi.parse_instances(INSTANCES, GARBAGE), "q9 |"),
        (lambda: smi.parse_instances(INSTANCES, COMPUTES.replace("2       MIG", "2")), "1c.3g"),
        (lambda: smi.parse_profiles(GARBAGE, PLACEMENTS), "q9 |"),
        (lambda: smi.parse_profiles(PROFILES, GARBAGE), "q9 |"),
        (lambda: smi.parse_profiles(PROFILES, PLACEMENTS.replace("{0,4}:4", "0,4")), "0,4"),
    ],
)
def test_what_cannot_be_read_is_no_answer_and_shows_its_first_line(read: Any, line: str) -> None:
    with pytest.raises(OSError, match=re.escape(line)) as failure:
        read()
    assert failure.value.errno == errno.EBADMSG


@pytest.mark.parametrize(
    "row",
    [
        "|   0  MIG 1g.5gb",
        "|   0  MIG 1g.5gb  19",
        "|   0  MIG 1g.5gb  x9     7/7        4.75   |",
        "|   0  MIG 1g.5gb  19     7-7        4.75   |",
        "|   0  MIG ../etc  19     7/7        4.75   |",
        "|   0  MIG 1g.5gb  19     9  4:x |",
        "|   0  MIG",
    ],
)
def test_an_odd_row_of_a_table_is_no_row_less(row: str) -> None:
    """To pass one over would call a GPU instance away that is there."""
    with pytest.raises(OSError, match=re.escape(row.strip())):
        smi.parse_profiles(f"{PROFILES}{row}\n", PLACEMENTS)
    with pytest.raises(OSError, match=re.escape(row.strip())):
        smi.parse_instances(f"{INSTANCES}{row}\n", COMPUTES)


LINES = st.lists(
    st.one_of(
        st.text(max_size=60),
        st.sampled_from((PROFILES + PLACEMENTS + INSTANCES + COMPUTES + REPORT).splitlines()),
        st.lists(
            st.sampled_from(["0", "MIG", "1g.5gb", "19", "7/7", "4.75", "4:1", "|", "{0,1}:", ":"])
        ).map(" ".join),
    )
).map("\n".join)


@given(LINES, LINES)
def test_no_text_makes_a_reader_fail_otherwise_than_in_words(one: str, other: str) -> None:
    with suppress(smi.UnreadableError):
        for profile in smi.parse_profiles(one, other):
            assert profile.name.partition("g.")[0].isdigit()
    with suppress(smi.UnreadableError):
        for instance in smi.parse_instances(one, other):
            assert instance.compute_instances >= 0
    with suppress(smi.UnreadableError):
        assert smi.parse_mig_mode(one) in (True, False, None)
    with suppress(smi.UnreadableError):
        assert smi.parse_mixed(one) in (True, False, None)


# ------------------------------------------------------------------------------------------- modes


async def test_a_card_in_mig_mode_tells_everything() -> None:
    program = Program(
        **{
            "-lgipp": ok(PLACEMENTS),
            "-lgip": ok(PROFILES),
            "-lgi": ok(INSTANCES),
            "-lci": ok(COMPUTES),
            "q": ok(report(mig="Enabled")),
        }
    )

    modes = await read_modes(program, GPU)

    assert (modes.mig, modes.mixed_size) == (True, None)
    assert len(modes.profiles) == 4
    assert [one.start for one in modes.instances] == [0, 4]
    assert all(str(GPU) in argv for argv in program.asked)


async def test_no_instances_is_an_answer_and_no_error() -> None:
    program = Program(
        **{
            "-lgipp": ok(PLACEMENTS),
            "-lgip": ok(PROFILES),
            "-lgi": NONE_FOUND,
            "q": ok(report(mig="Enabled")),
        }
    )
    assert (await read_modes(program, GPU)).instances == ()


async def test_a_card_without_mig_is_not_queried_for_instances() -> None:
    program = Program(q=ok(report("Disabled")))
    assert await read_modes(program, GPU) == GpuModes(mig=None, mixed_size=False)
    assert len(program.asked) == 1


@pytest.mark.parametrize(
    ("answer", "number", "words"),
    [
        (
            Completed(6, "No devices were found\n"),
            errno.EIO,
            "nvidia-smi ended with status 6: No devices were found",
        ),
        (Completed(9, ""), errno.EIO, "nvidia-smi ended with status 9: no output"),
        (ok("\x00\x9f garbage\n"), errno.EBADMSG, "cannot be read from .* garbage"),
        (CommandMissingError(errno.ENOENT, "no pod"), errno.ENOENT, "no pod"),
        (TimeoutError(), errno.ETIMEDOUT, "nvidia-smi did not end within 30 s"),
        (TimeoutError(errno.ETIMEDOUT, "it was stopped"), errno.ETIMEDOUT, "it was stopped"),
    ],
)
async def test_what_fails_says_so_in_words(
    answer: Completed | Exception, number: int, words: str
) -> None:
    with pytest.raises(OSError, match=words) as failure:
        await read_modes(Program(q=answer), GPU)
    assert failure.value.errno == number
