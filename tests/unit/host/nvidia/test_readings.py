"""What nvidia-smi measures, and what is made of it.

The answer about GPUs is a recording. That about vGPUs has the form of public reports of releases
525 and 580; no GPU with NVIDIA's vGPU driver was at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.pci import PciAddress
from laneway.host.nvidia import readings
from laneway.host.nvidia.readings import read_gpus, read_vgpus
from laneway.host.nvidia.smi import UnreadableError
from laneway.host.port import Completed
from laneway.sim.spec import build, parse_spec

RECORDED = (Path(__file__).parents[3] / "data/h100-query-gpu.csv").read_text()
GPU = PciAddress.parse("0001:c8:00.0")
VGPUS = """\
GPU 00000001:C8:00.0
    Active vGPUs                          : 2
    vGPU ID                               : 3251634300
        VM UUID                           : 11111111-2222-4333-8444-555555555555
        VM Name                           : desks_ann
        vGPU Name                         : NVIDIA RTX Pro 6000 Blackwell DC-3Q
        vGPU Type                         : 1519
        vGPU UUID                         : aaaaaaaa-bbbb-11f1-8ccc-dddddddddddd
        Guest Driver Version              : 580.105.08
        License Status                    : Unlicensed (Unrestricted)
        GPU Instance ID                   : N/A
        Placement ID                      : 3
        Frame Rate Limit                  : 60 FPS
        PCI
            Bus Id                        : 00000000:00:05.0
        FB Memory Usage
            Total                         : 3072 MiB
            Used                          : 128 MiB
            Free                          : 2944 MiB
        Utilization
            GPU                           : 12 %
            Memory                        : 7 %
            Encoder                       : 0 %
            Decoder                       : N/A
        Encoder Stats
            Active Sessions               : 2
        FBC Stats
            Active Sessions               : 9
    vGPU ID                               : 3251634301
        VM UUID                           : \n\
        VM Name                           : win10,debug-threads=on
        vGPU Name                         : NVIDIA RTXA6000-2Q
        MDEV UUID                         : AAAAAAAA-0000-4000-8000-000000000101
        License Status                    : N/A (Expiry: N/A)
        GPU Instance ID                   : 4
        Frame Rate Limit                  : N/A
        Utilization
            Gpu                           : N/A
GPU 00000001:D8:00.0
    Active vGPUs                          : 0

"""


class Smi:
    """A driver's program with one answer, or that of an older release."""

    def __init__(self, output: str, status: int = 0, lacks: str = "") -> None:
        self.output, self.status, self.lacks = output, status, lacks
        self.asked: list[Sequence[str]] = []

    async def run(self, argv: Sequence[str], _seconds: float) -> Completed:
        self.asked.append(argv)
        if self.lacks and f",{self.lacks}," in argv[1]:
            return Completed(2, f'Field "{self.lacks}" is not a valid field to query.\n\n')
        return Completed(self.status, self.output)

    async def has(self, _program: str) -> bool:
        return True


async def test_an_h100_tells_all_of_it() -> None:
    (gpu,), lacking = await read_gpus(Smi(RECORDED))

    assert (str(gpu.address), gpu.model) == ("0000:00:06.0", "NVIDIA H100 80GB HBM3")
    assert (gpu.driver, gpu.ecc, lacking) == ("580.159.04", "Enabled", frozenset())
    assert set(gpu.numbers) == set(readings.FIELDS)
    assert gpu.numbers[readings.TEMPERATURE] == 33
    assert gpu.numbers[readings.MARGIN] == 54
    assert gpu.numbers[readings.POWER] == 72.14
    assert gpu.numbers[readings.MEMORY_TOTAL] == 81559
    assert gpu.numbers[readings.SLOWDOWNS["hardware"]] == 0


@pytest.mark.parametrize("said", ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", ""])
async def test_what_a_gpu_does_not_tell_is_left_out_and_not_0(said: str) -> None:
    (gpu,), _ = await read_gpus(Smi(RECORDED.replace("72.14", said).replace("Enabled", said)))

    assert set(readings.FIELDS) - set(gpu.numbers) == {readings.POWER}
    assert gpu.ecc == ""


async def test_a_name_may_have_what_separates_values() -> None:
    (gpu,), _ = await read_gpus(Smi(RECORDED.replace("H100 80GB", "H100, 80GB")))

    assert gpu.model == "NVIDIA H100, 80GB HBM3"


async def test_a_release_without_a_field_is_asked_for_the_others() -> None:
    without = RECORDED.replace(", 54, 72.14", ", 72.14")
    old = Smi(without, lacks=readings.MARGIN)
    (gpu,), lacking = await read_gpus(old)
    await read_gpus(old, lacking)

    assert set(readings.FIELDS) - set(gpu.numbers) == {readings.MARGIN} == lacking
    assert gpu.numbers[readings.POWER] == 72.14
    assert len(old.asked) == 3, "what is known to be lacking is not asked again"


async def test_vgpus_of_vms() -> None:
    one, other = await read_vgpus(Smi(VGPUS))

    assert (one.gpu, one.id, one.profile) == (
        GPU,
        "3251634300",
        "NVIDIA RTX Pro 6000 Blackwell DC-3Q",
    )
    assert (one.domain, one.mdev, one.gpu_instance, one.placement) == ("desks_ann", "", None, 3)
    assert one.numbers[readings.FRAMEBUFFER_USED] == 128
    assert one.numbers[readings.FRAMEBUFFER_TOTAL] == 3072
    assert one.numbers[readings.VGPU_UTILIZATION["gpu"]] == 12
    assert one.numbers[readings.VGPU_UTILIZATION["memory"]] == 7
    assert readings.VGPU_UTILIZATION["decoder"] not in one.numbers
    assert one.numbers[readings.VGPU_ENCODER_SESSIONS] == 2
    assert one.numbers[readings.FRAME_RATE_LIMIT] == 60
    assert one.numbers[readings.LICENSED] == 0
    assert (other.mdev, other.gpu_instance) == ("aaaaaaaa-0000-4000-8000-000000000101", 4)
    for field in (readings.LICENSED, readings.FRAME_RATE_LIMIT, readings.VGPU_ENCODER_SESSIONS):
        assert field not in other.numbers, "the last vGPU's values are not this one's"


async def test_a_licensed_guest() -> None:
    text = VGPUS.replace("Unlicensed (Unrestricted)", "Licensed (Expiry: 2027-1-1 0:0:0 GMT)")
    assert (await read_vgpus(Smi(text)))[0].numbers[readings.LICENSED] == 1


async def test_no_gpu_and_no_vgpu_is_an_answer() -> None:
    assert await read_gpus(Smi("No devices were found\n", 6)) == ((), frozenset())
    assert await read_vgpus(Smi("No supported devices in vGPU mode\n")) == ()
    assert await read_vgpus(Smi("GPU 00000001:D8:00.0\n    Active vGPUs    : 0\n")) == ()


@pytest.mark.parametrize("text", ["", "[the first 9 bytes are left out]\n" + VGPUS[90:], "What?"])
async def test_a_report_without_its_beginning_is_not_taken_for_no_vgpus(text: str) -> None:
    with pytest.raises(UnreadableError):
        await read_vgpus(Smi(text))


@pytest.mark.parametrize(
    "text", ["0000:06\n", "x, " + RECORDED[20:], RECORDED.replace(", 33", "", 1)]
)
async def test_a_row_of_another_form_is_not_read_as_a_gpu(text: str) -> None:
    with pytest.raises(UnreadableError):
        await read_gpus(Smi(text))


async def test_a_driver_that_fails_says_so_in_its_own_words() -> None:
    failed = Smi("Unable to determine the device handle for GPU", 15)
    for question in (read_gpus, read_vgpus):
        with pytest.raises(OSError, match="status 15: Unable to determine"):
            await question(failed)


@given(st.lists(st.sampled_from([*VGPUS.splitlines(), "GPU x", " : ", "vGPU ID : "])))
async def test_any_report_is_read_or_refused(lines: list[str]) -> None:
    try:
        found = await read_vgpus(Smi("\n".join(lines)))
    except UnreadableError:
        return
    assert len(found) <= len(lines)


@pytest.mark.parametrize("model", ["a2", "rtx-pro-6000", "hgx-h100"])
async def test_simulated_gpus_tell_the_same_fields(model: str) -> None:
    host = build(parse_spec(model), "node")

    gpus, lacking = await read_gpus(host)

    assert gpus
    assert not lacking
    assert all(set(gpu.numbers) == set(readings.FIELDS) for gpu in gpus)
    assert await read_vgpus(host) == (), "none is open yet"
