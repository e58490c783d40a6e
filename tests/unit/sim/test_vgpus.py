"""vGPUs on a simulated GPU: what one function offers follows what its siblings carry."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from laneway.core.vgpu.catalogue import profile_named
from laneway.sim import dump
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from support.examples import many

PCI = "/sys/bus/pci/devices"
A2_VFS = [f"0000:08:{n >> 3:02x}.{n & 7}" for n in range(4, 20)]
L40S_VFS = [f"0000:17:{n >> 3:02x}.{n & 7}" for n in range(4, 36)]
ONE = "6a8f7f4e-9d3e-4f4e-8a52-3f0a4b8f9a01"
TWO = "6a8f7f4e-9d3e-4f4e-8a52-3f0a4b8f9a02"


@pytest.fixture
def a2() -> SimulatedHost:
    return build(parse_spec("a2"), "node")


@pytest.fixture
def l40s() -> SimulatedHost:
    return build(parse_spec("l40s"), "node")


def mdev_types(host: SimulatedHost, vf: str) -> dict[str, str]:
    """Directory by name of type."""
    types = f"{PCI}/{vf}/mdev_supported_types"
    return {
        host.read(f"{types}/{name}/name").decode().strip(): f"{types}/{name}"
        for name in host.names(types)
    }


def mdev_creatable(host: SimulatedHost, vf: str) -> set[str]:
    types = mdev_types(host, vf).items()
    return {name for name, at in types if host.read(f"{at}/available_instances") == b"1\n"}


def create(host: SimulatedHost, vf: str, name: str, identity: str) -> None:
    host.write(f"{mdev_types(host, vf)[name]}/create", f"{identity}\n")


def remove(host: SimulatedHost, identity: str) -> None:
    host.write(f"/sys/bus/mdev/devices/{identity}/remove", "1")


def vendor_creatable(host: SimulatedHost, vf: str) -> dict[str, str]:
    """Id by name of type."""
    head, *rows = host.read(f"{PCI}/{vf}/nvidia/creatable_vgpu_types").decode().splitlines()
    assert head == "ID    : vGPU Name"
    return {name.strip(): number.strip() for number, name in (row.split(":") for row in rows)}


def current(host: SimulatedHost, vf: str) -> str:
    return host.read(f"{PCI}/{vf}/nvidia/current_vgpu_type").decode().strip()


def configure(host: SimulatedHost, vf: str, number: str) -> None:
    host.write(f"{PCI}/{vf}/nvidia/current_vgpu_type", number)


def refusal(action: Callable[..., None], *arguments: object) -> str:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - which one is what is returned
        action(*arguments)
    assert caught.value.filename
    return errno.errorcode[caught.value.errno or 0]


def expected(names: list[str], carried: list[str]) -> set[str]:
    """The same-size rule: what an empty function offers, given all vGPUs of its GPU."""
    sizes = {profile_named(name).framebuffer_mib for name in carried}  # type: ignore[union-attr]
    known = [profile_named(name) for name in names]
    return {
        one.name
        for one in known
        if one and len(carried) < (one.max_per_gpu or 0) and sizes <= {one.framebuffer_mib}
    }


def test_after_one_4q_only_4gb_types_remain_and_after_four_none(a2: SimulatedHost) -> None:
    identities = [str(uuid.UUID(int=n)) for n in range(4)]
    for number, identity in enumerate(identities):
        create(a2, A2_VFS[number], "NVIDIA A2-4Q", identity)
        rest = {"NVIDIA A2-4A", "NVIDIA A2-4C", "NVIDIA A2-4Q"} if number < 3 else set()
        assert mdev_creatable(a2, A2_VFS[number]) == set()
        assert {frozenset(mdev_creatable(a2, vf)) for vf in A2_VFS[number + 1 :]} == {
            frozenset(rest)
        }
    for identity in identities:
        remove(a2, identity)
    assert len(mdev_creatable(a2, A2_VFS[0])) == 15


def test_a_new_vgpu_is_found_everywhere_and_nowhere_once_removed(
    a2: SimulatedHost, host_files: Callable[[SimulatedHost], dict[str, str | bytes]]
) -> None:
    before = host_files(a2)
    create(a2, A2_VFS[2], "NVIDIA A2-2Q", ONE)
    home = f"{a2.resolve(f'{PCI}/{A2_VFS[2]}')}/{ONE}"
    assert a2.resolve(f"/sys/bus/mdev/devices/{ONE}") == home
    assert a2.readlink(f"{home}/mdev_type") == "../mdev_supported_types/nvidia-745"
    assert a2.resolve(f"{home}/driver") == "/sys/bus/mdev/drivers/nvidia-vgpu-vfio"
    group = a2.resolve(f"{home}/iommu_group")
    assert a2.names(f"{group}/devices") == [ONE]
    assert a2.exists(f"/dev/vfio/{group.rpartition('/')[2]}")
    assert a2.names(f"{home}/mdev_type/devices") == [ONE]
    remove(a2, ONE)
    after = host_files(a2)
    assert {path for path in after if path not in before} <= {
        "/sys/bus/mdev",
        "/sys/bus/mdev/devices",
        "/sys/bus/mdev/drivers",
        "/sys/class/vfio",
        "/sys/bus/mdev/drivers/nvidia-vgpu-vfio",
        "/dev/vfio",
        "/sys/devices/virtual/vfio",
        "/sys/dev/char",
    }  # a registered driver stays, without devices
    assert {path: after[path] for path in before} == before


@pytest.mark.parametrize(
    ("data", "number"),
    [
        ("nonsense", "EINVAL"),
        (ONE[:-1], "EINVAL"),
        (ONE + "00", "EINVAL"),
        (f"../../{ONE}", "EINVAL"),
        (f"{ONE}\n\n", "EINVAL"),
        (TWO, "EEXIST"),
        (TWO.upper(), "EEXIST"),
        (ONE, "ENOSPC"),
    ],
)
def test_a_refused_creation_has_the_kernels_errno_and_changes_nothing(
    a2: SimulatedHost,
    host_files: Callable[[SimulatedHost], dict[str, str | bytes]],
    data: str,
    number: str,
) -> None:
    create(a2, A2_VFS[0], "NVIDIA A2-16Q", TWO)
    before = host_files(a2)
    path = f"{PCI}/{A2_VFS[1]}/mdev_supported_types/nvidia-746/create"
    assert refusal(a2.write, path, data) == number
    assert host_files(a2) == before


def test_what_does_not_exist_or_is_read_only_refuses_as_the_kernel_does(a2: SimulatedHost) -> None:
    types = f"{PCI}/{A2_VFS[0]}/mdev_supported_types"
    assert refusal(a2.write, f"{types}/nvidia-1/create", ONE) == "ENOENT"
    assert refusal(a2.write, f"{types}/nvidia-746/name", "x") == "EACCES"
    assert refusal(a2.write, types, "x") == "EISDIR"
    assert refusal(a2.write, f"/sys/bus/mdev/devices/{ONE}/remove", "1") == "ENOENT"
    create(a2, A2_VFS[0], "NVIDIA A2-4Q", ONE)
    assert refusal(a2.write, f"/sys/bus/mdev/devices/{ONE}/remove", "x") == "EINVAL"
    a2.write(f"/sys/bus/mdev/devices/{ONE}/remove", "0")
    a2.write(f"/sys/bus/mdev/devices/{ONE}/remove", "")
    assert a2.exists(f"/sys/bus/mdev/devices/{ONE}")


def test_a_uuid_is_shown_in_lower_case(a2: SimulatedHost) -> None:
    create(a2, A2_VFS[0], "NVIDIA A2-4Q", ONE.upper())
    assert a2.names("/sys/bus/mdev/devices") == [ONE]


def test_the_group_number_of_a_removed_vgpu_is_given_to_the_next(a2: SimulatedHost) -> None:
    create(a2, A2_VFS[0], "NVIDIA A2-4Q", ONE)
    group = a2.resolve(f"/sys/bus/mdev/devices/{ONE}/iommu_group")
    remove(a2, ONE)
    assert not a2.exists(group)
    create(a2, A2_VFS[5], "NVIDIA A2-8Q", TWO)
    assert a2.resolve(f"/sys/bus/mdev/devices/{TWO}/iommu_group") == group


def test_the_group_number_of_an_unplugged_function_is_given_to_the_next_vgpu(
    a2: SimulatedHost,
) -> None:
    group = a2.resolve(f"{PCI}/{A2_VFS[3]}/iommu_group")
    a2.unplug(f"{PCI}/{A2_VFS[3]}")
    create(a2, A2_VFS[5], "NVIDIA A2-8Q", ONE)
    assert a2.resolve(f"/sys/bus/mdev/devices/{ONE}/iommu_group") == group


def test_an_unplugged_function_gives_its_room_back(l40s: SimulatedHost) -> None:
    first, second, *_ = L40S_VFS
    configure(l40s, first, vendor_creatable(l40s, first)["NVIDIA L40S-48Q"])
    l40s.unplug(f"{PCI}/{first}")
    assert "NVIDIA L40S-48Q" in vendor_creatable(l40s, second)


def test_the_real_dumps_three_vgpus_leave_room_for_one_of_their_size(a2_dump_path: Path) -> None:
    host = build(parse_spec(str(a2_dump_path)), "real")
    four = {"NVIDIA A2-4A", "NVIDIA A2-4C", "NVIDIA A2-4Q"}
    configured = {"0000:08:00.4", "0000:08:00.6", "0000:08:02.0"}
    for vf in A2_VFS:
        assert len(mdev_types(host, vf)) == 15
        assert mdev_creatable(host, vf) == (set() if vf in configured else four)
    create(host, "0000:08:02.3", "NVIDIA A2-4Q", ONE)
    assert mdev_creatable(host, "0000:08:00.5") == set()
    for identity in host.names("/sys/bus/mdev/devices"):
        remove(host, identity)
    assert len(mdev_creatable(host, "0000:08:00.4")) == 15


def test_sizes_that_contradict_the_rule_are_taken_as_given(a2_dump_path: Path) -> None:
    blocks = dump.parse(
        a2_dump_path.read_text().replace(
            "mdev_type=../mdev_supported_types/nvidia-746",
            "mdev_type=../mdev_supported_types/nvidia-747",
        )
    )
    host = SimulatedHost("odd", blocks, {})
    assert all(mdev_creatable(host, vf) == set() for vf in A2_VFS)
    eight = "c728e022-f16f-434b-ad2c-9665ee634d3d"
    assert host.resolve(f"/sys/bus/mdev/devices/{eight}/mdev_type").endswith("nvidia-747")
    remove(host, eight)
    assert mdev_creatable(host, "0000:08:02.0") == {"NVIDIA A2-4A", "NVIDIA A2-4C", "NVIDIA A2-4Q"}


def test_a_vgpu_of_an_unknown_type_rules_out_all_others_until_it_is_removed(
    a2_dump_path: Path,
) -> None:
    text = a2_dump_path.read_text()
    for number in ("746", "751", "754"):
        text = text.replace(f"mdev_supported_types/nvidia-{number}", "x/nvidia-31337")
    host = SimulatedHost("odd", dump.parse(text), {})
    assert mdev_creatable(host, "0000:08:00.5") == set()
    for identity in host.names("/sys/bus/mdev/devices"):
        remove(host, identity)
    assert len(mdev_creatable(host, "0000:08:00.5")) == 15


def test_a_card_without_gpu_instances_offers_no_mig_backed_types() -> None:
    a100 = build(parse_spec("a100"), "node")
    sizes = (4, 5, 8, 10, 20, 40)
    assert mdev_creatable(a100, "0000:17:00.4") == {f"GRID A100-{size}C" for size in sizes}


def test_a16_and_a2_share_a_pci_id_but_not_their_types(a2_dump_path: Path) -> None:
    text = a2_dump_path.read_text().replace(
        "A: subsystem_device=0x157e", "A: subsystem_device=0x14a9"
    )
    host = SimulatedHost("a16", dump.parse(text), {})
    assert {name.partition("-")[0] for name in mdev_types(host, A2_VFS[1])} == {"NVIDIA A16"}


def test_captured_type_directories_win_over_the_catalogue(a2_dump_path: Path) -> None:
    types = (
        r"A: mdev_supported_types/nvidia-754/name=NVIDIA A2-4Z\n"
        "\n"
        r"A: mdev_supported_types/nvidia-754/description=framebuffer=4096M, max_instance=4\n"
    )
    vf = "P: /devices/pci0000:00/0000:00:03.0/0000:08:00.5\n"
    text = a2_dump_path.read_text()
    assert vf in text
    text = text.replace(vf, f"{vf}{types}\n").replace("nvidia-746", "nvidia-754")
    host = SimulatedHost("newer", dump.parse(text.replace("nvidia-751", "nvidia-754")), {})
    assert mdev_creatable(host, "0000:08:00.5") == {"NVIDIA A2-4Z"}


def test_vendor_vfio_offers_shrink_to_the_header_when_the_card_is_full(
    l40s: SimulatedHost,
) -> None:
    first, second, third, *_ = L40S_VFS
    half = vendor_creatable(l40s, first)["NVIDIA L40S-24Q"]
    configure(l40s, first, half)
    assert current(l40s, first) == half
    assert vendor_creatable(l40s, first) == {}
    assert set(vendor_creatable(l40s, second)) == {"NVIDIA L40S-24A", "NVIDIA L40S-24Q"}
    configure(l40s, second, half)
    assert vendor_creatable(l40s, third) == {}
    other_card = L40S_VFS[0].replace(":17:", ":98:")
    assert "NVIDIA L40S-48Q" in vendor_creatable(l40s, other_card)
    configure(l40s, first, "0")
    assert current(l40s, first) == "0"
    assert set(vendor_creatable(l40s, third)) == {"NVIDIA L40S-24A", "NVIDIA L40S-24Q"}


def test_vendor_vfio_changes_no_function_that_a_vm_has(l40s: SimulatedHost) -> None:
    first, second, *_ = L40S_VFS
    types = vendor_creatable(l40s, first)
    configure(l40s, first, types["NVIDIA L40S-8Q"])
    vm = l40s.hold(f"{PCI}/{first}")
    for number in ("0", types["NVIDIA L40S-8Q"]):
        assert refusal(configure, l40s, first, number) == "EBUSY"
    assert current(l40s, first) == types["NVIDIA L40S-8Q"]
    configure(l40s, second, types["NVIDIA L40S-8Q"])
    vm.release()
    configure(l40s, first, "0")
    assert current(l40s, first) == "0"


def test_vendor_vfio_refuses_and_an_unknown_type_clears_the_function(l40s: SimulatedHost) -> None:
    first, second, *_ = L40S_VFS
    types = vendor_creatable(l40s, first)
    configure(l40s, first, types["NVIDIA L40S-24Q"])
    for number, error in (
        (types["NVIDIA L40S-24Q"], "EIO"),  # occupied
        ("x", "EINVAL"),
        ("-1", "EINVAL"),
        ("4294967296", "ERANGE"),
        ("9" * 60, "ERANGE"),
    ):
        assert refusal(configure, l40s, first, number) == error
        assert current(l40s, first) == types["NVIDIA L40S-24Q"]
    assert refusal(configure, l40s, second, types["NVIDIA L40S-8Q"]) == "EIO"
    assert current(l40s, second) == "0"
    assert refusal(configure, l40s, first, "999999") == "EIO"
    assert current(l40s, first) == "0"
    assert "NVIDIA L40S-8Q" in vendor_creatable(l40s, second)


@pytest.mark.parametrize("left", ["", "1155  : NVIDIA L40S-24Q\n"])
def test_a_captured_vendor_vfio_node_keeps_what_is_configured(left: str) -> None:
    path = "/devices/pci0000:16/0000:16:02.0/0000:17:00"
    common = {"SUBSYSTEM": "pci", "DRIVER": "nvidia"}
    ids = {"vendor": b"0x10de\n", "device": b"0x26b9\n"}
    vfs = [
        dump.Block(
            path=f"{path}.{function}",
            properties=common,
            attributes=ids
            | {
                "nvidia/current_vgpu_type": value,
                "nvidia/creatable_vgpu_types": f"ID    : vGPU Name\n{left}".encode(),
            },
            links={"physfn": "../0000:17:00.0"},
        )
        for function, value in ((4, b"1155\n"), (5, b"0\n"), (6, b""))
    ]
    pf = dump.Block(path=f"{path}.0", properties=common, attributes=ids)
    host = SimulatedHost("captured", [pf, *vfs], {})
    assert current(host, "0000:17:00.4") == "1155"
    assert current(host, "0000:17:00.6") == "0"
    assert set(vendor_creatable(host, "0000:17:00.5")) == {"NVIDIA L40S-24A", "NVIDIA L40S-24Q"}
    configure(host, "0000:17:00.4", "0")
    assert len(vendor_creatable(host, "0000:17:00.5")) == 23


class MdevLife(RuleBasedStateMachine):
    """Any sequence of creations and removals, against the rule computed from the names alone."""

    @initialize()
    def start(self) -> None:
        self.host = build(parse_spec("a2"), "node")
        self.names = sorted(mdev_types(self.host, A2_VFS[0]))
        self.carried: dict[str, tuple[str, str]] = {}
        self.next = 0

    @rule(
        vf=st.sampled_from(A2_VFS[:8]),
        size=st.sampled_from([1, 2, 4, 8, 16]),
        pick=st.integers(0, 3),
    )
    def create(self, vf: str, size: int, pick: int) -> None:
        same = [name for name in self.names if name[:-1].endswith(f"-{size}")]
        name = same[pick % len(same)]
        identity = str(uuid.UUID(int=self.next))
        self.next += 1
        if vf not in self.carried and name in expected(self.names, self._carried_names()):
            create(self.host, vf, name, identity)
            self.carried[vf] = (name, identity)
        else:
            assert refusal(create, self.host, vf, name, identity) == "ENOSPC"

    @rule(vf=st.sampled_from(A2_VFS[:8]))
    def remove(self, vf: str) -> None:
        if vf in self.carried:
            remove(self.host, self.carried.pop(vf)[1])

    @invariant()
    def offers_follow_the_rule(self) -> None:
        offered = expected(self.names, self._carried_names())
        for vf in A2_VFS[:9]:
            assert mdev_creatable(self.host, vf) == (set() if vf in self.carried else offered)

    def _carried_names(self) -> list[str]:
        return [name for name, _ in self.carried.values()]


class VendorLife(RuleBasedStateMachine):
    """The same on vendor VFIO."""

    @initialize()
    def start(self) -> None:
        self.host = build(parse_spec("l40s"), "node")
        self.ids = vendor_creatable(self.host, L40S_VFS[0])
        self.carried: dict[str, str] = {}

    @rule(
        vf=st.sampled_from(L40S_VFS[:5]),
        size=st.sampled_from([8, 16, 24, 48]),
        series=st.sampled_from("AQ"),
    )
    def write(self, vf: str, size: int, series: str) -> None:
        name = f"NVIDIA L40S-{size}{series}"
        if vf not in self.carried and name in expected(list(self.ids), list(self.carried.values())):
            configure(self.host, vf, self.ids[name])
            self.carried[vf] = name
        else:
            assert refusal(configure, self.host, vf, self.ids[name]) == "EIO"

    @rule(vf=st.sampled_from(L40S_VFS[:5]), unknown=st.booleans())
    def clear(self, vf: str, unknown: bool) -> None:
        if unknown:
            assert refusal(configure, self.host, vf, "31337\n") == "EIO"
        else:
            configure(self.host, vf, "0\n")
        self.carried.pop(vf, None)

    @invariant()
    def offers_follow_the_rule(self) -> None:
        offered = expected(list(self.ids), list(self.carried.values()))
        for vf in L40S_VFS[:6]:
            assert set(vendor_creatable(self.host, vf)) == (
                set() if vf in self.carried else offered
            )
            assert current(self.host, vf) == self.ids.get(self.carried.get(vf, ""), "0")


TestMdevLife = MdevLife.TestCase
TestMdevLife.settings = settings(max_examples=many(15), stateful_step_count=12, deadline=None)
TestVendorLife = VendorLife.TestCase
TestVendorLife.settings = settings(max_examples=many(25), stateful_step_count=15, deadline=None)
