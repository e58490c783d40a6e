"""A GPU under any sequence of commands and writes: what it offers is what it takes, and no more."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from support.examples import many

PCI = "/sys/bus/pci/devices"
GPU = "0000:17:00.0"
VFS = [f"0000:17:00.{number}" for number in range(4, 8)]
SWITCH = st.sampled_from("01")


def offered(host: SimulatedHost, vf: str) -> list[str]:
    lines = host.read(f"{PCI}/{vf}/nvidia/creatable_vgpu_types").decode().splitlines()
    assert lines[0] == "ID    : vGPU Name"
    return [line.split(":")[0].strip() for line in lines[1:]]


def current(host: SimulatedHost, vf: str) -> str:
    return host.read(f"{PCI}/{vf}/nvidia/current_vgpu_type").decode().strip()


class Life(RuleBasedStateMachine):
    """One RTX PRO 6000, whose every mode can be reached."""

    @initialize()
    def start(self) -> None:
        self.host = build(parse_spec("rtx-pro-6000"), "node")
        self.every = offered(self.host, VFS[0]) + [str(number) for number in range(1546, 1588)]
        self.turn = 0

    @rule(option=st.sampled_from(["-e", "-d", "-d"]))
    def sriov_manage(self, option: str) -> None:
        had = self.vgpus()
        status, output = self.host.call(["/usr/lib/nvidia/sriov-manage", option, GPU])
        there = [vf for vf in VFS if self.host.exists(f"{PCI}/{vf}")]
        assert status == 0 or had
        assert bool(output)
        if status == 0:
            assert there == (VFS if option == "-e" else [])
        else:
            assert self.vgpus() == had

    @rule(value=SWITCH)
    def mig_mode(self, value: str) -> None:
        self.smi("-i", GPU, "-mig", value)

    @rule(value=SWITCH)
    def mixed_size(self, value: str) -> None:
        status = self.smi("vgpu", "-i", GPU, "-shm", value)
        assert status in ((19, 3) if self.vgpus() else (0, 3))

    @rule(value=SWITCH, number=st.integers(0, 6))
    def mixed_size_of_an_instance(self, value: str, number: int) -> None:
        self.smi("vgpu", "-i", GPU, "-gi", str(number), "-shm", value)

    @rule(profile=st.sampled_from(["47", "35", "32", "14", "47:3", "1g.24gb+gfx"]))
    def create_instance(self, profile: str) -> None:
        self.smi("mig", "-i", GPU, "-cgi", profile, "-C")

    @rule(number=st.integers(0, 6))
    def destroy_instance(self, number: int) -> None:
        before = self.vgpus()
        self.smi("mig", "-i", GPU, "-dci", "-gi", str(number))
        self.smi("mig", "-i", GPU, "-dgi", "-gi", str(number))
        assert self.vgpus() == before

    @rule(vf=st.sampled_from(VFS), pick=st.integers(0, 1000), listed=st.booleans())
    def configure(self, vf: str, pick: int, listed: bool) -> None:
        if self.host.exists(f"{PCI}/{vf}"):
            choice = offered(self.host, vf) if listed else self.every
            if choice:
                self.attempt(vf, choice[pick % len(choice)])

    @rule(vf=st.sampled_from(VFS))
    def clear(self, vf: str) -> None:
        if self.host.exists(f"{PCI}/{vf}"):
            self.host.write(f"{PCI}/{vf}/nvidia/current_vgpu_type", "0")

    @rule(vf=st.sampled_from(VFS))
    def rebind(self, vf: str) -> None:
        if self.host.exists(f"{PCI}/{vf}"):
            self.host.write(f"{PCI}/{vf}/driver/unbind", vf)
            self.host.write("/sys/bus/pci/drivers_probe", vf)
            assert current(self.host, vf) == "0"

    @invariant()
    def one_more_of_what_is_offered_fits_and_nothing_else(self) -> None:
        self.turn += 1
        for vf in VFS:
            if not self.host.exists(f"{PCI}/{vf}"):
                continue
            if current(self.host, vf) != "0":
                assert offered(self.host, vf) == []
                continue
            number = self.every[self.turn * 7 % len(self.every)]
            before = offered(self.host, vf)
            if self.attempt(vf, number):
                self.host.write(f"{PCI}/{vf}/nvidia/current_vgpu_type", "0")
            assert offered(self.host, vf) == before

    def attempt(self, vf: str, number: str) -> bool:
        """Write a type; it is accepted exactly when it was on offer."""
        was, on_offer = current(self.host, vf), number in offered(self.host, vf)
        with contextlib.suppress(OSError):
            self.host.write(f"{PCI}/{vf}/nvidia/current_vgpu_type", number)
        assert current(self.host, vf) == (number if on_offer else was)
        return on_offer

    def smi(self, *words: str) -> int:
        status, output = self.host.call(["nvidia-smi", *words])
        assert output.endswith("\n")
        return status

    def vgpus(self) -> list[tuple[str, str]]:
        there = [vf for vf in VFS if self.host.exists(f"{PCI}/{vf}")]
        return [(vf, current(self.host, vf)) for vf in there if current(self.host, vf) != "0"]


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=many(25), stateful_step_count=25, deadline=None)

HOST = build(parse_spec("a100"), "node")
WORDS = st.one_of(
    st.sampled_from(["mig", "vgpu", "-i", "-gi", "-ci", "-cgi", "-cci", "-dci", "-dgi", "-lgi"]),
    st.sampled_from(["-lci", "-lgip", "-lgipp", "-C", "-mig", "-shm", "-ghm", "-q", "-L", "-h"]),
    st.sampled_from(["--query-gpu=index", "--format=csv", "-e", "-d", "ALL", "0", "1", "9:0"]),
    st.sampled_from(["0000:17:00.0", "00000000:31:00.0"]),
    st.text(max_size=6),
)


@given(
    program=st.sampled_from(["nvidia-smi", "/usr/lib/nvidia/sriov-manage"]),
    words=st.lists(WORDS, max_size=7),
)
@settings(max_examples=many(150), deadline=None)
def test_any_command_line_ends_in_a_status_and_words(program: str, words: list[str]) -> None:
    status, output = HOST.call([program, *words])
    assert 0 <= status < 256
    assert isinstance(output, str)
