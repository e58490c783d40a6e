"""What NVIDIA's programs say and do on a simulated host, in the order of their use."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec

PCI = "/sys/bus/pci/devices"
SRIOV = "/usr/lib/nvidia/sriov-manage"
RTX, RTX_VF = "0000:17:00.0", "0000:17:00.4"
A100, A100_VF = "0000:17:00.0", "0000:17:00.4"
UUID = "6a8f7f4e-9d3e-4f4e-8a52-3f0a4b8f9a01"


@pytest.fixture
def rtx() -> SimulatedHost:
    return build(parse_spec("rtx-pro-6000"), "node")


@pytest.fixture
def a100() -> SimulatedHost:
    return build(parse_spec("a100"), "node")


def smi(host: SimulatedHost, words: str) -> tuple[int, str]:
    status, output = host.call(["nvidia-smi", *words.split()])
    return status, output


def sriov(host: SimulatedHost, words: str) -> tuple[int, str]:
    status, output = host.call([SRIOV, *words.split()])
    return status, output


def ok(result: tuple[int, str]) -> str:
    status, output = result
    assert status == 0, output
    return output


def mig_mode(host: SimulatedHost, gpu: str) -> str:
    return ok(smi(host, f"-i {gpu} --query-gpu=mig.mode.current --format=csv,noheader"))


def row(host: SimulatedHost, gpu: str, name: str) -> str:
    rows = [
        line.split(":", 1) for line in ok(smi(host, f"-q -i {gpu}")).splitlines() if ":" in line
    ]
    return next(value.strip() for key, value in rows if key.strip() == name)


def creatable(host: SimulatedHost, vf: str) -> dict[str, str]:
    """Id by the last word of a type's name."""
    lines = host.read(f"{PCI}/{vf}/nvidia/creatable_vgpu_types").decode().splitlines()[1:]
    return {name.split()[-1]: number.strip() for number, name in (one.split(":") for one in lines)}


def configure(host: SimulatedHost, vf: str, number: str) -> None:
    host.write(f"{PCI}/{vf}/nvidia/current_vgpu_type", number)


def vfs(host: SimulatedHost, gpu: str) -> int:
    return sum(name.startswith("virtfn") for name in host.names(f"{PCI}/{gpu}"))


def driver(host: SimulatedHost, function: str) -> str:
    return host.resolve(f"{PCI}/{function}/driver").rpartition("/")[2]


def mig_on(host: SimulatedHost, gpu: str) -> None:
    """The documented order, up to the instances."""
    ok(sriov(host, f"-d {gpu}"))
    ok(smi(host, f"-i {gpu} -mig 1"))
    ok(sriov(host, f"-e {gpu}"))


# --------------------------------------------------------------------------------- naming GPUs


@pytest.mark.parametrize("name", ["0", "0000:17:00.0", "00000000:17:00.0", "17:00.0"])
def test_a_gpu_has_an_index_and_addresses_of_any_length(rtx: SimulatedHost, name: str) -> None:
    fields = "index,pci.bus_id,name,mig.mode.current,mig.mode.pending"
    output = ok(smi(rtx, f"-i {name} --query-gpu={fields} --format=csv,noheader"))
    name = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    assert output == f"0, 00000000:17:00.0, {name}, Disabled, Disabled\n"


@pytest.mark.parametrize("name", ["7", "0000:99:00.0", RTX_VF, "nonsense", "../x"])
def test_what_is_no_gpu_of_the_driver_is_not_found(rtx: SimulatedHost, name: str) -> None:
    for command in (f"-q -i {name}", f"mig -i {name} -lgi", f"vgpu -i {name} -shm 1"):
        assert smi(rtx, command) == (6, "No devices were found\n")


def test_a_card_with_another_driver_is_invisible(rtx: SimulatedHost) -> None:
    assert ok(smi(rtx, "-L")).count("GPU ") == 2
    ok(sriov(rtx, f"-d {RTX}"))
    rtx.write(f"{PCI}/{RTX}/driver/unbind", RTX)
    assert smi(rtx, f"-q -i {RTX}")[0] == 6
    assert not rtx.exists(f"/proc/driver/nvidia/gpus/{RTX}")
    assert ok(smi(rtx, "-L")).count("GPU ") == 1
    rtx.write("/sys/bus/pci/drivers_probe", RTX)
    assert "Device Minor:    0" in rtx.read(f"/proc/driver/nvidia/gpus/{RTX}/information").decode()


def test_cards_without_mig_say_so() -> None:
    a2 = build(parse_spec("a2"), "node")
    assert mig_mode(a2, "0") == "[N/A]\n"
    assert smi(a2, "-i 0 -mig 1")[0] == 3
    assert smi(a2, "mig -i 0 -lgip") == (3, "No MIG-supported devices found.\n")


# ---------------------------------------------------------------------------------- mixed sizes


def test_mixed_sizes_after_sriov_manage_and_before_the_first_vgpu(rtx: SimulatedHost) -> None:
    assert row(rtx, RTX, "vGPU Heterogeneous Mode") == "Disabled"
    assert row(rtx, RTX, "Heterogeneous Time-Slice Sizes") == "Supported"
    ok(smi(rtx, f"vgpu -i {RTX} -shm 1"))
    assert row(rtx, RTX, "vGPU Heterogeneous Mode") == "Enabled"
    configure(rtx, RTX_VF, creatable(rtx, RTX_VF)["DC-48Q"])
    second = RTX_VF.replace(".4", ".5")
    assert "DC-32Q" in creatable(rtx, second)
    configure(rtx, second, creatable(rtx, second)["DC-32Q"])
    assert rtx.read(f"{PCI}/{second}/nvidia/placement_id") == b"64\n"
    status, output = smi(rtx, f"vgpu -i {RTX} -shm 0")
    assert status == 19
    assert "In use by another client" in output
    assert row(rtx, RTX, "vGPU Heterogeneous Mode") == "Enabled"


def test_sriov_manage_forgets_mixed_sizes_when_it_takes_the_driver_away(
    rtx: SimulatedHost,
) -> None:
    ok(smi(rtx, f"vgpu -i {RTX} -shm 1"))
    assert ok(sriov(rtx, f"-e {RTX}")) == f"GPU at {RTX} already has VFs enabled.\n"
    assert row(rtx, RTX, "vGPU Heterogeneous Mode") == "Enabled"
    ok(sriov(rtx, f"-d {RTX}"))
    assert ok(sriov(rtx, f"-d {RTX}")) == f"GPU at {RTX} already has VFs disabled.\n"
    ok(sriov(rtx, f"-e {RTX}"))
    assert row(rtx, RTX, "vGPU Heterogeneous Mode") == "Disabled"


# ------------------------------------------------------------------------------------------ MIG


def test_mig_backed_vgpus_in_the_documented_order(rtx: SimulatedHost) -> None:
    mig_on(rtx, RTX)
    assert mig_mode(rtx, RTX) == "Enabled\n"
    assert row(rtx, RTX, "vGPU Heterogeneous Mode") == "N/A"
    assert creatable(rtx, RTX_VF) == {}
    with pytest.raises(OSError) as caught:  # noqa: PT011 - which one is looked at
        configure(rtx, RTX_VF, "1546")
    assert caught.value.errno == errno.EIO
    assert smi(rtx, f"mig -i {RTX} -lgi") == (6, "No GPU instances found: Not Found\n")
    assert smi(rtx, f"mig -i {RTX} -lci")[0] == 6
    assert ok(smi(rtx, f"mig -i {RTX} -cgi 47:6,35 -C")).splitlines() == [
        "Successfully created GPU instance ID  5 on GPU  0 using profile MIG 1g.24gb+gfx (ID 47)",
        (
            "Successfully created compute instance ID  0 on GPU  0 GPU instance ID  5 "
            "using profile MIG 1g.24gb (ID  0)"
        ),
        "Successfully created GPU instance ID  1 on GPU  0 using profile MIG 2g.48gb+gfx (ID 35)",
        (
            "Successfully created compute instance ID  0 on GPU  0 GPU instance ID  1 "
            "using profile MIG 2g.48gb (ID  1)"
        ),
    ]
    assert ok(smi(rtx, f"vgpu -i {RTX} -gi 5 -shm 1"))
    assert "vGPU Heterogeneous Mode           : Enabled" in ok(
        smi(rtx, f"vgpu -i {RTX} -gi 5 -ghm")
    )
    assert smi(rtx, f"vgpu -i {RTX} -shm 1")[0] == 3
    configure(rtx, RTX_VF, creatable(rtx, RTX_VF)["DC-1-12Q"])
    assert rtx.read(f"{PCI}/{RTX_VF}/nvidia/gpu_instance_id") == b"5\n"
    assert smi(rtx, f"mig -i {RTX} -dci -gi 5")[0] == 19
    configure(rtx, RTX_VF, "0")
    assert smi(rtx, f"mig -i {RTX} -dgi -gi 5") == (
        19,
        (
            "Unable to destroy GPU instance ID  5 from GPU  0: In use by another client\n"
            "Failed to destroy GPU instances: In use by another client\n"
        ),
    )
    assert ok(smi(rtx, f"mig -i {RTX} -dci -gi 5")) == (
        "Successfully destroyed compute instance ID  0 from GPU  0 GPU instance ID  5\n"
    )
    assert ok(smi(rtx, f"mig -i {RTX} -dgi -gi 5")) == (
        "Successfully destroyed GPU instance ID  5 from GPU  0\n"
    )


def test_sriov_manage_destroys_instances_and_mig_mode_stays(rtx: SimulatedHost) -> None:
    ok(sriov(rtx, f"-d {RTX}"))
    ok(smi(rtx, f"-i {RTX} -mig 1"))
    ok(smi(rtx, f"mig -i {RTX} -cgi 47,47 -C"))
    ok(sriov(rtx, f"-e {RTX}"))
    assert mig_mode(rtx, RTX) == "Enabled\n"
    assert smi(rtx, f"mig -i {RTX} -lgi")[0] == 6
    status, output = smi(rtx, f"-i {RTX} -mig 0")
    assert status == 19
    assert output.startswith("Unable to disable MIG Mode for GPU 00000000:17:00.0: In use by")
    ok(sriov(rtx, f"-d {RTX}"))
    assert ok(smi(rtx, f"-i {RTX} -mig 0")) == (
        "Disabled MIG Mode for GPU 00000000:17:00.0\nAll done.\n"
    )


def test_mediated_devices_of_mig_backed_types(a100: SimulatedHost) -> None:
    types = f"{PCI}/{A100_VF}/mdev_supported_types"
    assert a100.read(f"{types}/nvidia-474/name") == b"GRID A100-1-5C\n"
    assert a100.read(f"{types}/nvidia-474/available_instances") == b"0\n"
    mig_on(a100, A100)
    assert a100.read(f"{types}/nvidia-468/available_instances") == b"0\n"
    assert a100.read(f"{types}/nvidia-474/available_instances") == b"0\n"
    ok(smi(a100, f"mig -i {A100} -cgi 19 -C"))
    assert a100.read(f"{types}/nvidia-474/available_instances") == b"1\n"
    a100.write(f"{types}/nvidia-474/create", UUID)
    home = f"/sys/bus/mdev/devices/{UUID}"
    assert a100.read(f"{home}/nvidia/gpu_instance_id") == b"13\n"
    assert a100.read(f"{home}/nvidia/placement_id") == b"Not Applicable\n"


def test_lists_look_like_the_real_ones(rtx: SimulatedHost, a100: SimulatedHost) -> None:
    mig_on(rtx, RTX)
    ok(smi(rtx, f"mig -i {RTX} -cgi 2g.48gb,1g.24gb,14 -C"))
    assert (
        ok(smi(rtx, f"mig -i {RTX} -lgi"))
        == """\
+---------------------------------------------------------+
| GPU instances:                                          |
| GPU   Name               Profile  Instance   Placement  |
|                            ID       ID       Start:Size |
|=========================================================|
|   0  MIG 1g.24gb           14        5          6:3     |
+---------------------------------------------------------+
|   0  MIG 1g.24gb           14        6          9:3     |
+---------------------------------------------------------+
|   0  MIG 2g.48gb            5        1          0:6     |
+---------------------------------------------------------+
"""
    )
    computes = ok(smi(rtx, f"mig -i {RTX} -lci")).splitlines()
    assert computes[6] == "|   0      5       MIG 1g.24gb          0         0          0:1     |"
    assert len({len(line) for line in computes}) == 1
    profiles = ok(smi(a100, f"mig -i {A100} -lgip")).splitlines()
    assert len({len(line) for line in profiles}) == 1
    mig_on(a100, A100)
    ok(smi(a100, f"mig -i {A100} -cgi 9"))
    shown = ok(smi(a100, f"mig -i {A100} -lgip")).splitlines()
    assert (
        "|   0  MIG 1g.5gb          19     4/7        4.75       No     14     0     0   |" in shown
    )
    assert (
        "|   0  MIG 3g.20gb          9     1/2        19.50      No     42     2     0   |" in shown
    )
    assert (
        "|   0  MIG 7g.40gb          0     0/1        39.25      No     98     5     0   |" in shown
    )
    placements = ok(smi(a100, f"mig -i {A100} -lgipp")).splitlines()
    assert placements[0] == "GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1"
    assert placements[-1] == "GPU  0 Profile ID  0 Placement : {0}:8"


@pytest.mark.parametrize("listing", ["lgip", "lgipp"])
def test_a_simulated_h100_lists_what_a_real_one_does(listing: str) -> None:
    recorded = Path(__file__).parents[2] / "data" / "h100-580" / f"{listing}.txt"
    host = build(parse_spec("hgx-h100"), "node")
    said = ok(smi(host, f"mig -i 0 -{listing}"))
    assert said.splitlines() == recorded.read_text().splitlines()


def test_what_does_not_fit_is_refused_and_what_came_before_stays(a100: SimulatedHost) -> None:
    mig_on(a100, A100)
    status, output = smi(a100, f"mig -i {A100} -cgi 19,19,14,9")
    assert status == 23
    assert output.splitlines()[-2:] == [
        "Unable to create a GPU instance on GPU  0 using profile 9: Insufficient Resources",
        "Failed to create GPU instances: Insufficient Resources",
    ]
    assert ok(smi(a100, f"mig -i {A100} -lgi")).count("MIG ") == 3
    assert smi(a100, f"mig -i {A100} -cgi 77")[0] == 2
    assert smi(a100, f"mig -i {A100} -cgi 19:7")[0] == 2
    assert smi(a100, f"mig -i {A100} -cgi 19:6")[0] == 23
    assert smi(a100, f"mig -i {A100} -dgi -gi 44")[0] == 6


@pytest.mark.parametrize(
    "words",
    ["", "-mig", "-i 0 -mig 2", "--query-gpu=index", "mig", "mig -lgi -x", "vgpu -i 0 -shm x"],
)
def test_a_command_line_without_sense_changes_nothing(rtx: SimulatedHost, words: str) -> None:
    assert smi(rtx, words)[0] == 2


# --------------------------------------------------------------------------------- sriov-manage


def test_all_vfs_go_and_come_back_with_their_driver_and_their_offers(rtx: SimulatedHost) -> None:
    offered = creatable(rtx, RTX_VF)
    assert vfs(rtx, RTX) == 48
    assert ok(sriov(rtx, "-d ALL")).splitlines() == [
        "Disabling VFs on 0000:17:00.0",
        "Disabling VFs on 0000:98:00.0",
    ]
    assert vfs(rtx, RTX) == 0
    assert not rtx.exists(f"{PCI}/{RTX_VF}")
    ok(sriov(rtx, f"-e {RTX}"))
    assert vfs(rtx, RTX) == 48
    assert driver(rtx, RTX_VF) == driver(rtx, RTX) == "nvidia"
    assert creatable(rtx, RTX_VF) == offered
    assert vfs(rtx, "0000:98:00.0") == 0


def test_a_management_client_keeps_the_driver_from_letting_go(rtx: SimulatedHost) -> None:
    client = rtx.hold("/dev/nvidia0", "dcgm-exporter")
    status, output = sriov(rtx, f"-d {RTX}")
    assert status == 1
    assert f"Cannot obtain unbindLock for {RTX}" in output
    assert vfs(rtx, RTX) == 48
    assert smi(rtx, f"-i {RTX} -mig 1")[0] == 19
    client.release()
    ok(sriov(rtx, f"-d {RTX}"))


def test_vgpus_keep_sriov_manage_from_taking_vfs(a100: SimulatedHost) -> None:
    a100.write(f"{PCI}/{A100_VF}/mdev_supported_types/nvidia-470/create", UUID)
    assert sriov(a100, f"-d {A100}")[0] == 1
    assert driver(a100, A100) == "nvidia"
    assert vfs(a100, A100) == 16
    a100.write(f"/sys/bus/mdev/devices/{UUID}/remove", "1")
    ok(sriov(a100, f"-d {A100}"))


def test_what_has_no_vfs_or_is_unknown_is_left_alone(rtx: SimulatedHost) -> None:
    assert sriov(rtx, "-d 0000:99:00.0")[0] == 1
    assert sriov(rtx, f"-x {RTX}")[0] == 1
    assert sriov(rtx, "-e ../../etc")[0] == 1
    assert ok(sriov(rtx, "-h")).startswith("Usage:")


def test_the_driver_refuses_a_plain_write_that_would_remove_its_vfs(rtx: SimulatedHost) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - which one is looked at
        rtx.write(f"{PCI}/{RTX}/sriov_numvfs", "0")
    assert caught.value.errno == errno.EPERM
    assert vfs(rtx, RTX) == 48


# ---------------------------------------------------------------------------- files of a vGPU


def test_files_about_a_vgpu_answer_once_there_is_one(rtx: SimulatedHost) -> None:
    home = f"{PCI}/{RTX_VF}/nvidia"
    files = ("gpu_instance_id", "placement_id", "vgpu_params", "warm_update")
    for name in files:
        with pytest.raises(OSError) as caught:  # noqa: PT011 - which one is looked at
            rtx.read(f"{home}/{name}")
        assert caught.value.errno == errno.ENXIO
    with pytest.raises(OSError) as caught:  # noqa: PT011 - which one is looked at
        rtx.write(f"{home}/vgpu_params", "frame_rate_limiter=0")
    assert caught.value.errno == errno.ENXIO
    configure(rtx, RTX_VF, creatable(rtx, RTX_VF)["DC-4Q"])
    values = [rtx.read(f"{home}/{name}") for name in files]
    assert values == [b"Not Applicable\n", b"0\n", b"\n", b"0\n"]


@pytest.mark.parametrize("framework", ["vendor", "mdev"])
def test_parameters_are_kept_as_long_as_the_vgpu(
    rtx: SimulatedHost, a100: SimulatedHost, framework: str
) -> None:
    if framework == "vendor":
        host, home = rtx, f"{PCI}/{RTX_VF}/nvidia"
        configure(rtx, RTX_VF, creatable(rtx, RTX_VF)["DC-4Q"])
    else:
        host, home = a100, f"/sys/bus/mdev/devices/{UUID}/nvidia"
        a100.write(f"{PCI}/{A100_VF}/mdev_supported_types/nvidia-470/create", UUID)
    host.write(f"{home}/vgpu_params", "frame_rate_limiter=0,disable_vnc=1\n")
    assert host.read(f"{home}/vgpu_params") == b"frame_rate_limiter=0,disable_vnc=1\n"
    for bad in ("frame_rate_limiter", "a=1,,b=2", "a b=1", "=1", "a=1\nb=2"):
        with pytest.raises(OSError) as caught:  # noqa: PT011 - which one is looked at
            host.write(f"{home}/vgpu_params", bad)
        assert caught.value.errno == errno.EINVAL
    assert host.read(f"{home}/vgpu_params") == b"frame_rate_limiter=0,disable_vnc=1\n"
    host.write(f"{home}/vgpu_params", "\n")
    assert host.read(f"{home}/vgpu_params") == b"\n"
    host.write(f"{home}/vgpu_params", "frame_rate_limiter=0")
    if framework == "vendor":
        configure(rtx, RTX_VF, "0")
        configure(rtx, RTX_VF, creatable(rtx, RTX_VF)["DC-4Q"])
    else:
        a100.write(f"/sys/bus/mdev/devices/{UUID}/remove", "1")
        a100.write(f"{PCI}/{A100_VF}/mdev_supported_types/nvidia-470/create", UUID)
    assert host.read(f"{home}/vgpu_params") == b"\n"


def test_a_vgpu_that_a_vm_has_open_is_not_taken_away(rtx: SimulatedHost) -> None:
    configure(rtx, RTX_VF, creatable(rtx, RTX_VF)["DC-4Q"])
    machine = rtx.hold(f"{PCI}/{RTX_VF}")
    for data in ("0", "424242"):
        with pytest.raises(OSError) as caught:  # noqa: PT011 - which one is looked at
            configure(rtx, RTX_VF, data)
        assert caught.value.errno == errno.EBUSY
    machine.release()
    configure(rtx, RTX_VF, "0")


def test_unbinding_a_function_destroys_its_vgpu(rtx: SimulatedHost, a100: SimulatedHost) -> None:
    configure(rtx, RTX_VF, creatable(rtx, RTX_VF)["DC-96Q"])
    rtx.write(f"{PCI}/{RTX_VF}/driver/unbind", RTX_VF)
    assert not rtx.exists(f"{PCI}/{RTX_VF}/nvidia")
    rtx.write("/sys/bus/pci/drivers_probe", RTX_VF)
    assert rtx.read(f"{PCI}/{RTX_VF}/nvidia/current_vgpu_type") == b"0\n"
    assert "DC-96Q" in creatable(rtx, RTX_VF)
    a100.write(f"{PCI}/{A100_VF}/mdev_supported_types/nvidia-470/create", UUID)
    a100.write(f"{PCI}/{A100_VF}/driver/unbind", A100_VF)
    assert not a100.exists(f"/sys/bus/mdev/devices/{UUID}")
    assert not a100.exists(f"{PCI}/{A100_VF}/mdev_supported_types")
    assert not a100.exists(f"/sys/class/mdev_bus/{A100_VF}")
    a100.write("/sys/bus/pci/drivers_probe", A100_VF)
    assert a100.exists(f"/sys/class/mdev_bus/{A100_VF}")


# --------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("words", ["-q", "mig -i 0 -lgi", "vgpu -i 0 -shm 1"])
async def test_a_program_can_be_made_to_hang(rtx: SimulatedHost, words: str) -> None:
    rtx.faults.block("nvidia-smi")
    with pytest.raises(TimeoutError):
        await rtx.run(["nvidia-smi", *words.split()], 0.01)
    rtx.faults.unblock("nvidia-smi")
    assert (await rtx.run(["nvidia-smi", "-q"], 60)).status == 0


def test_programs_fail_as_often_as_they_are_set_to(rtx: SimulatedHost) -> None:
    rtx.faults.fail_command("sriov-manage", 1, f"Cannot obtain unbindLock for {RTX}\n", times=2)
    rtx.faults.fail_command("nvidia-smi", 19, "In use by another client\n")
    assert [sriov(rtx, f"-d {RTX}")[0] for _ in range(2)] == [1, 1]
    assert vfs(rtx, RTX) == 48
    ok(sriov(rtx, f"-d {RTX}"))
    assert vfs(rtx, RTX) == 0
    assert smi(rtx, f"vgpu -i {RTX} -shm 1")[0] == 19
    assert row(rtx, RTX, "vGPU Heterogeneous Mode") == "Disabled"
