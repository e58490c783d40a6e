"""A simulated host is found again as it was left, also after a crash."""

from __future__ import annotations

import contextlib
import resource
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.sim.host import SimulatedHost
from laneway.sim.persistence import HostLogError, open_simulated
from laneway.sim.spec import Spec
from support.examples import many

A2, L40S = Spec(model="a2"), Spec(model="l40s")
PCI = "/sys/bus/pci/devices"
Snapshot = Callable[[SimulatedHost], dict[str, str | bytes]]

_IDENTITY = st.integers(0, 2).map(lambda number: str(uuid.UUID(int=number)))
_MDEV_WRITE = st.one_of(
    st.tuples(
        st.builds(
            "{}/0000:08:00.{}/mdev_supported_types/nvidia-{}/create".format,
            st.just(PCI),
            st.integers(4, 6),
            st.sampled_from([745, 746, 748, 1]),
        ),
        _IDENTITY,
    ),
    st.tuples(_IDENTITY.map("/sys/bus/mdev/devices/{}/remove".format), st.just("1")),
)
_VENDOR_WRITE = st.tuples(
    st.integers(4, 6).map(f"{PCI}/0000:17:00.{{}}/nvidia/current_vgpu_type".format),
    st.sampled_from(["0", "1155", "1152", "7", "x"]),
)


def attempt(host: SimulatedHost, path: str, data: str) -> None:
    with contextlib.suppress(OSError):
        host.write(path, data)


@settings(max_examples=many(12), deadline=None)
@given(st.data())
def test_replay_gives_the_identical_files(host_files: Snapshot, data: st.DataObject) -> None:
    spec, write = data.draw(st.sampled_from([(A2, _MDEV_WRITE), (L40S, _VENDOR_WRITE)]))
    writes = data.draw(st.lists(write, max_size=8))
    with tempfile.TemporaryDirectory() as directory:
        log = f"{directory}/log"
        host = open_simulated(spec, "node", log)
        for path, value in writes:
            attempt(host, path, value)
        for _ in range(2):
            assert host_files(open_simulated(spec, "node", log)) == host_files(host)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with one vGPU created."""
    path = tmp_path / "log"
    host = open_simulated(L40S, "node", str(path))
    host.write(f"{PCI}/0000:17:00.4/nvidia/current_vgpu_type", "1155")
    return path


def test_a_crash_in_the_middle_of_a_write_costs_only_that_write(log: Path) -> None:
    whole = log.read_bytes()
    lines = whole.splitlines(True)
    for length in {0, len(lines[0]), *range(1, len(whole), 9)}:
        log.write_bytes(whole[:length])
        host = open_simulated(L40S, "node", str(log))
        assert host.read(f"{PCI}/0000:17:00.4/nvidia/current_vgpu_type") == b"0\n"
        assert log.read_bytes() == lines[0]
        host.write(f"{PCI}/0000:17:00.4/nvidia/current_vgpu_type", "1155")
        assert log.read_bytes() == whole


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda raw: raw.replace(b'"data"', b'"dat'), "line 2 is damaged"),
        (lambda raw: b"\n" + raw, "line 1 is damaged"),
        (lambda raw: raw + b"\0\0\0\n", "line 3 is damaged"),
        (lambda raw: raw.replace(b'"format":1', b'"format":9'), "has format 9"),
        (lambda raw: raw.replace(b"l40s", b"a100"), "another simulated host .model a100, not"),
        (lambda raw: raw.replace(b"17:00.4", b"ff:00.4"), "now ends in ENOENT instead of success"),
    ],
)
def test_any_other_damage_is_refused_and_nothing_changed(
    log: Path, damage: Callable[[bytes], bytes], complaint: str
) -> None:
    log.write_bytes(damaged := damage(log.read_bytes()))
    with pytest.raises(HostLogError, match=complaint) as caught:
        open_simulated(L40S, "node", str(log))
    assert "\n" not in str(caught.value)
    assert log.read_bytes() == damaged


def test_a_dump_that_has_changed_is_another_host(tmp_path: Path, a2_dump_path: Path) -> None:
    copy = tmp_path / "dump"
    copy.write_bytes(a2_dump_path.read_bytes())
    spec = Spec(path=str(copy))
    log = str(tmp_path / "log")
    open_simulated(spec, "node", log)
    open_simulated(spec, "node", log)
    copy.write_bytes(a2_dump_path.read_bytes().replace(b"ProLiant", b"Different"))
    with pytest.raises(HostLogError, match="another simulated host"):
        open_simulated(spec, "node", log)


def test_a_write_that_reached_no_driver_is_not_kept(log: Path) -> None:
    before = log.read_bytes()
    host = open_simulated(L40S, "node", str(log))
    attempt(host, f"{PCI}/0000:17:00.4/vendor", "1")
    attempt(host, "/sys/none", "1")
    assert log.read_bytes() == before


def test_a_log_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    with pytest.raises(HostLogError, match=r"cannot read .*Is a directory"):
        open_simulated(A2, "node", str(tmp_path))


def test_a_full_disk_tears_no_line_in_the_middle(tmp_path: Path) -> None:
    log = tmp_path / "log"
    host = open_simulated(A2, "node", str(log))
    override = f"{PCI}/0000:08:00.4/driver_override"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 20, hard))
    try:
        with pytest.raises(OSError, match="No space left") as full:
            host.write(override, "vfio-pci")
        assert full.value.filename == str(log)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    host.write(override, "nvidia")

    again = open_simulated(A2, "node", str(log))
    assert again.read(override) == b"nvidia\n"
