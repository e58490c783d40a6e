from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from laneway.core import names
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.vgpu.catalogue import profile_named, profiles_of

QUALIFIED = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")
SUBDOMAIN = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\Z"
)
ADDRESS = PciAddress.parse("0000:08:00.0")


def assert_usable(resource: str) -> None:
    """Kubernetes takes the name and the kernel the socket."""
    vendor, name = resource.split("/")
    assert SUBDOMAIN.match(vendor)
    assert QUALIFIED.match(name)
    assert len(names.socket_path(resource).encode()) <= 107
    assert names.is_resource_name(resource)


class TestPci:
    @pytest.mark.parametrize(
        ("vendor", "product", "device_id", "expected"),
        [
            ("Example Micro Systems [EXA/OLD]", "X", "0001", "exa.com/X"),
            ("Advanced Micro Devices, Inc. [AMD/ATI]", "Navi 31", "744c", "amd.com/NAVI_31"),
            ("NVIDIA Corporation", "GA107GL [A2 / A16]", "25b6", "nvidia.com/GA107GL_A2___A16"),
            ("NVIDIA Corporation", "", "25b6", "nvidia.com/25b6"),
            ("NVIDIA Corporation", "[-]", "25b6", "nvidia.com/25b6"),
            ("", "", "25b6", "unknown.com/25b6"),
            (
                "Red Hat, Inc.",
                "Virtio 1.0 network device",
                "1041",
                "red.com/VIRTIO_1_0_NETWORK_DEVICE",
            ),
            ("3Com Corporation", " a  b\tc.- ", "1", "3com.com/A_B_C"),
            ("Broken [never closed", "X", "1", "neverclosed.com/X"),
        ],
    )
    def test_names_follow_the_rules(
        self, vendor: str, product: str, device_id: str, expected: str
    ) -> None:
        assert names.pci_resource_name(vendor, product, device_id) == expected

    def test_the_longest_name_that_fits_is_kept(self) -> None:
        # 60 bytes are left for vendor and product; nvidia.com takes 10.
        fits, too_long = "X" * 50, "X" * 51

        assert names.pci_resource_name("NVIDIA", fits, "25b6") == f"nvidia.com/{fits}"
        assert names.pci_resource_name("NVIDIA", too_long, "25b6") == "nvidia.com/25b6"
        assert len(names.socket_path(f"nvidia.com/{fits}")) == 107

    def test_a_virtual_function_is_shortened_before_it_loses_its_name(self) -> None:
        product = "ConnectX Family mlx5Gen Virtual Function of a kind"
        shortened = "CONNECTX_FAMILY_MLX5GEN_VF_OF_A_KIND"

        assert names.pci_resource_name("Mellanox Technologies", product, "101e") == (
            f"mellanox.com/{shortened}"
        )
        assert names.pci_resource_name("Mellanox", "An Virtual Function", "1") == (
            "mellanox.com/AN_VIRTUAL_FUNCTION"
        )

    @pytest.mark.parametrize(
        ("device", "expected"),
        [
            ("25b6", "nvidia.com/GA107GL_A2___A16"),
            ("27b8", "nvidia.com/AD104GL_L4"),
            ("26b9", "nvidia.com/AD102GL_L40S"),
            ("2330", "nvidia.com/GH100_H100_SXM5_80GB"),
            ("2335", "nvidia.com/GH100_H200_SXM_141GB"),
            ("2bb5", "nvidia.com/GB202GL_RTX_PRO_6000_BLACKWELL_SERVER_EDITION"),
            ("fffe", "nvidia.com/fffe"),
        ],
    )
    def test_functions_are_named_from_the_database(self, device: str, expected: str) -> None:
        function = PciFunction(address=ADDRESS, vendor="10de", device=device, class_code="030200")

        assert names.resource_name_of(function) == expected

    @given(st.text(), st.text(), st.from_regex(r"\A[0-9a-f]{4}\Z"))
    @example("[]", "", "0000")
    @example("V" * 200, "P", "0000")
    @example("NVIDIA", "/LEFT", "0000")
    def test_any_database_gives_a_usable_name(
        self, vendor: str, product: str, device_id: str
    ) -> None:
        assert_usable(names.pci_resource_name(vendor, product, device_id))


class TestOverrides:
    def test_a_pinned_device_has_its_own_name(self) -> None:
        assert names.pinned_resource_name("nvidia.com/AD104GL_L4", "node1-000008000") == (
            "nvidia.com/node1-000008000"
        )

    def test_a_long_pinned_name_keeps_the_device_and_stays_unique(self) -> None:
        nodes = [f"gpu-worker-{one}.rack-17.example.internal.test.example.com" for one in "ab"]
        pinned = [
            names.pinned_resource_name("nvidia.com/X", names.pci_object_name(node, ADDRESS))
            for node in nodes
        ]

        for one in pinned:
            assert_usable(one)
            assert re.search(r"-000008000-[0-9a-f]{8}\Z", one)
        assert len(set(pinned)) == 2

    @pytest.mark.parametrize(
        ("profile", "expected"),
        [
            ("NVIDIA A2-2Q", "nvidia.com/NVIDIA_A2-2Q"),
            (" GRID  T4-1B4 ", "nvidia.com/GRID_T4-1B4"),
            (
                "NVIDIA RTX Pro 6000 Blackwell DC-4Q",
                "nvidia.com/NVIDIA_RTX_Pro_6000_Blackwell_DC-4Q",
            ),
            ("A/B.C  D", "nvidia.com/A_B_C_D"),
        ],
    )
    def test_profiles_keep_case_and_dashes(self, profile: str, expected: str) -> None:
        """R1: every run of spaces, `/` and `.` is one `_`, not the first space alone."""
        assert names.vgpu_resource_name(profile) == expected

    def test_profiles_that_differ_in_a_forbidden_character_stay_apart(self) -> None:
        plus, star = names.vgpu_resource_name("A2+2Q"), names.vgpu_resource_name("A2*2Q")

        assert plus != star
        assert_usable(plus)
        assert_usable(star)

    @pytest.mark.parametrize("device", ["25b6", "26b9", "20b5", "2bb5", "2330"])
    def test_every_known_profile_is_named_without_a_hash(self, device: str) -> None:
        for profile in profiles_of(device):
            name = names.vgpu_resource_name(profile.name)
            assert name == "nvidia.com/" + re.sub("[ /.]", "_", profile.name)
        assert profile_named("NVIDIA A2-2Q") in profiles_of("25b6")

    @pytest.mark.parametrize(
        ("text", "usable"),
        [
            ("nvidia.com/A2", True),
            ("example.com/" + "x" * 49, True),
            ("example.com/" + "x" * 50, False),
            ("nvidia.com", False),
            ("nvidia.com/", False),
            ("/A2", False),
            ("nvidia.com/a/b", False),
            ("Nvidia.com/A2", False),
            ("nvidia.com/A2\n", False),
            ("nvidia.com/_A2", False),
            ("../x/A2", False),
        ],
    )
    def test_a_written_name_is_checked(self, text: str, usable: bool) -> None:
        assert names.is_resource_name(text) is usable


class TestObjects:
    def test_names_are_those_that_clients_know(self) -> None:
        assert names.pci_object_name("node1", ADDRESS) == "node1-000008000"
        assert names.network_object_name("Node1", "enp5s0F1") == "node1-enp5s0f1"
        assert names.usb_object_name("node7", "046d", "c52b", 3, 11) == "node7-046d-c52b-003011"
        assert names.usb_resource_name("node7-046d-c52b-003011") == (
            "kubevirt.io/node7-046d-c52b-003011"
        )

    def test_the_usb_socket_is_named_for_the_device(self) -> None:
        assert names.socket_path("kubevirt.io/node7-046d-c52b-003011") == (
            "/var/lib/kubelet/device-plugins/kubevirt-usb-node7-046d-c52b-003011.sock"
        )
        assert names.socket_path("nvidia.com/NVIDIA_A2-2Q") == (
            "/var/lib/kubelet/device-plugins/kubevirt-nvidia.com-NVIDIA_A2-2Q.sock"
        )

    @pytest.mark.parametrize("interface", ["eth_0", "eth0.", "eth0:1", "é", "a.-b"])
    def test_an_interface_that_is_no_object_name_gets_one_of_its_own(self, interface: str) -> None:
        name = names.network_object_name("node1", interface)

        assert SUBDOMAIN.match(name)
        assert name != names.network_object_name("node1", interface + "_")


NODE = st.from_regex(r"\A[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?\Z")


@given(st.text(), st.text())
def test_any_text_gives_usable_names(one: str, other: str) -> None:
    assert_usable(names.vgpu_resource_name(one))
    assert_usable(names.usb_resource_name(one))
    assert_usable(names.pinned_resource_name(one, other))
    assert SUBDOMAIN.match(names.network_object_name(one, other))
    assert SUBDOMAIN.match(names.pci_object_name(one, ADDRESS))


@pytest.mark.parametrize("length", [1, 236, 241, 242, 253])
def test_object_names_stay_within_their_limit_on_long_node_names(length: int) -> None:
    node = "n" * length

    pci = names.pci_object_name(node, ADDRESS)
    usb = names.usb_object_name(node, "046d", "c52b", 3, 11)

    for name, harvester in (
        (pci, f"{node}-000008000"),
        (usb, f"{node}-046d-c52b-003011"),
    ):
        assert SUBDOMAIN.match(name)
        assert (name == harvester) is (len(harvester) <= 253)


@given(NODE, st.integers(1, 999), st.integers(1, 999))
def test_usb_names_are_usable_on_every_node(node: str, bus: int, number: int) -> None:
    name = names.usb_object_name(node, "046d", "c52b", bus, number)

    assert SUBDOMAIN.match(name)
    assert_usable(names.usb_resource_name(name))


@given(st.sets(st.text(min_size=1), min_size=2, max_size=2).map(sorted))
def test_different_devices_never_share_a_pinned_name(pair: list[str]) -> None:
    first, second = (names.pinned_resource_name("nvidia.com/X", one) for one in pair)

    assert first != second


class TestDescription:
    @pytest.mark.parametrize(
        ("vendor", "device", "class_code", "expected"),
        [
            ("10de", "27b8", "030200", "3D controller: NVIDIA Corporation AD104GL [L4]"),
            ("10de", "fffe", "03fe00", "Display controller: NVIDIA Corporation Device fffe"),
            ("eeee", "0001", "ee0100", "Class ee01: Vendor eeee Device 0001"),
        ],
    )
    def test_ids_stand_in_for_unknown_names(
        self, vendor: str, device: str, class_code: str, expected: str
    ) -> None:
        function = PciFunction(address=ADDRESS, vendor=vendor, device=device, class_code=class_code)

        assert names.pci_description(function) == expected

    def test_usb_devices_say_their_own_name_too(self) -> None:
        assert names.usb_description("046d", "c52b", "USB Receiver") == (
            "Unifying Receiver (Logitech, Inc.) [USB Receiver]"
        )
        assert names.usb_description("046d", "fffe", "") == "Unknown (Logitech, Inc.)"
        assert names.usb_description("fffe", "0001", "") == "Unknown fffe:0001"
