"""`--simulate` says clearly what it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from laneway.core.programs import SRIOV_MANAGE
from laneway.sim.dump import DumpError
from laneway.sim.spec import Spec, SpecError, build, parse_spec


def test_models_with_and_without_a_count() -> None:
    assert parse_spec("a2") == Spec(model="a2")
    assert parse_spec("hgx-h100:3") == Spec(model="hgx-h100", count=3)
    assert parse_spec("l40s:2").label == "l40s"


def test_a_host_as_its_installer_left_it() -> None:
    spec = parse_spec("l40s:2,iommu=off")
    assert (spec.model, spec.count, spec.iommu) == ("l40s", 2, False)

    host = build(spec, "node")

    assert not host.exists("/sys/kernel/iommu_groups")
    assert not host.exists("/sys/bus/pci/drivers/vfio-pci")
    assert b"intel_iommu" not in host.read("/proc/cmdline")


def test_a_reboot_forgets_all_but_what_is_on_disks() -> None:
    host = build(parse_spec("a2"), "node")
    boot = host.read("/proc/sys/kernel/random/boot_id")
    host.hold("/dev/vfio/vfio", "qemu")
    host.call([SRIOV_MANAGE, "-d", "0000:08:00.0"])
    host.replace("/etc/motd", "kept")

    assert host.call(["systemctl", "reboot"]).status == 0

    assert host.read("/proc/sys/kernel/random/boot_id") != boot
    assert host.read("/etc/motd") == b"kept"
    assert host.read("/sys/bus/pci/devices/0000:08:00.0/sriov_numvfs") == b"16\n"
    assert not [name for name in host.names("/proc") if name.isdecimal() and name != "1"]


def test_the_path_of_a_dump(a2_dump_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = parse_spec(str(a2_dump_path))
    assert (spec.path, spec.count, spec.label) == (str(a2_dump_path), 1, "a2-vgpu-node")
    monkeypatch.chdir(a2_dump_path.parent)
    assert parse_spec(a2_dump_path.name).path == a2_dump_path.name


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("b2", "unknown model 'b2': use one of a2, a2-vfio, l40s, a100, hgx-h100, plain"),
        ("", "unknown model"),
        ("a2:", "unknown model"),
        ("a2:x", "unknown model"),
        ("a2:0", "use 1 to 1000"),
        ("a2:1001", "use 1 to 1000"),
        ("a2,iommu=on", "MODEL,iommu=off"),
        ("./none.umockdev", "no dump at ./none.umockdev"),
        ("/", "no dump at /"),
    ],
)
def test_anything_else_is_refused_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint) as caught:
        parse_spec(text)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_dump_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\x7fELF\0\0\n")
    with pytest.raises(DumpError, match="x line 1: expected 'P: "):
        build(parse_spec(str(path)), "node")
