"""What NVIDIA's programs did to a simulated host is there again when it is opened again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from laneway.sim.host import SimulatedHost
from laneway.sim.persistence import open_simulated
from laneway.sim.spec import parse_spec

GPU = "0000:17:00.0"
VF = "0000:17:00.4"


def test_modes_instances_and_vgpus_outlive_the_process(
    tmp_path: Path, host_files: Callable[[SimulatedHost], dict[str, str | bytes]]
) -> None:
    log = str(tmp_path / "log")
    host = open_simulated(parse_spec("rtx-pro-6000"), "node", log)
    for command in (
        f"/usr/lib/nvidia/sriov-manage -d {GPU}",
        f"nvidia-smi -i {GPU} -mig 1",
        f"/usr/lib/nvidia/sriov-manage -e {GPU}",
        f"nvidia-smi mig -i {GPU} -cgi 47:3,35 -C",
        f"nvidia-smi mig -i {GPU} -cgi 32",
        f"nvidia-smi vgpu -i {GPU} -gi 4 -shm 1",
    ):
        host.call(command.split())
    home = f"/sys/bus/pci/devices/{VF}/nvidia"
    host.write(f"{home}/current_vgpu_type", "1558")
    host.write(f"{home}/vgpu_params", "frame_rate_limiter=0")
    again = open_simulated(parse_spec("rtx-pro-6000"), "node", log)
    assert host_files(again) == host_files(host)
    for question in (
        f"nvidia-smi mig -i {GPU} -lgi",
        f"nvidia-smi mig -i {GPU} -lci",
        f"nvidia-smi vgpu -i {GPU} -gi 4 -ghm",
        "nvidia-smi -q",
        "nvidia-smi -L",
    ):
        answer = host.call(question.split())
        assert answer.status == 0
        assert again.call(question.split()) == answer
