"""Complete scans: every model, and hosts on which anything may be garbage."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.core.inventory import Inventory
from laneway.host.scan import scan
from laneway.sim.host import SimulatedHost
from laneway.sim.models import MODELS
from laneway.sim.spec import build, parse_spec
from laneway.sim.tree import Attribute, Directory, Node
from support.examples import many

Walk = Callable[[SimulatedHost], dict[str, str | bytes]]


def test_every_model_scans_without_an_error() -> None:
    for model in MODELS:
        inventory = scan(build(parse_spec(model), "node"))
        assert inventory.errors == (), model
        addresses = [function.address for function in inventory.functions]
        assert addresses == sorted(set(addresses))
        assert {vgpu.address for vgpu in inventory.vgpus} <= set(addresses)
        assert {nic.address for nic in inventory.interfaces} <= set(addresses)


def test_the_root_disk_the_default_route_and_the_display_are_critical() -> None:
    inventory = scan(build(parse_spec("plain"), "node"))
    words = " | ".join(reason for reasons in inventory.critical.values() for reason in reasons)
    for expected in ("root file system", "swap space", "default route", "boot display"):
        assert expected in words


def test_the_version_of_the_driver_is_found() -> None:
    assert scan(build(parse_spec("a2"), "node")).nvidia_driver == "535.216.01"
    assert scan(build(parse_spec("plain"), "node")).nvidia_driver == ""


def garbage(host: SimulatedHost, paths: list[str], pick: int, node: Node) -> str:
    path = paths[pick % len(paths)]
    host.tree.discard(path)
    host.tree.put(path, node)
    return path


def paths_of(model: str, walk: Walk) -> list[str]:
    found = walk(build(parse_spec(model), "node"))
    return sorted(path for path in found if path.startswith(("/sys", "/proc")))


@pytest.fixture(scope="module")
def paths(host_files: Walk) -> dict[str, list[str]]:
    return {model: paths_of(model, host_files) for model in ("a2", "l40s")}


def failing(number: int) -> Attribute:
    def show() -> bytes:
        raise OSError(number, "made to fail")

    return Attribute(show=show)


VALUES = st.one_of(
    st.binary(max_size=80),
    st.text(alphabet="0123456789abcdefx:.-/ \n\0=٣", max_size=40).map(str.encode),
    st.sampled_from(
        [b"", b"\n", b"-1\n", b"9" * 30, b"0x" + b"f" * 40, b"ID : vGPU Name\n: \n1:\n:x", b"=\n=="]
    ),
)
NODES = st.one_of(
    VALUES,
    st.text(alphabet="abc/.0:\udcff", min_size=1, max_size=20).filter(lambda text: text.strip()),
    st.sampled_from([".", "..", "/", "/sys", "../../../../../../etc/passwd"]),
    st.sampled_from([1, 2, 5, 6, 13, 16, 19, 22]).map(failing),
    st.builds(Directory),
    st.builds(
        lambda name, value: Directory({name: value}), st.text("a:0.-\udc80=", min_size=1), VALUES
    ),
)


def is_sound(inventory: Inventory) -> bool:
    """Whether everything can go on its way: encoded, and said in one line."""
    plain = msgspec.structs.replace(inventory, critical={}, identities={})
    mapped = (*inventory.critical.items(), *inventory.identities.items())
    msgspec.json.encode((plain, mapped))
    return all(error.device and "\n" not in error.message for error in inventory.errors)


@settings(max_examples=many(100), deadline=None)
@given(
    model=st.sampled_from(["a2", "l40s"]),
    changes=st.lists(st.tuples(st.integers(0, 10**6), NODES), min_size=1, max_size=8),
)
def test_garbage_anywhere_never_fails_a_scan(
    paths: dict[str, list[str]], model: str, changes: list[tuple[int, Node]]
) -> None:
    host = build(parse_spec(model), "node")
    for pick, node in changes:
        try:
            garbage(host, paths[model], pick, node)
        except OSError:
            continue  # below something that was replaced before
    assert is_sound(scan(host))


@settings(max_examples=many(40), deadline=None)
@given(pick=st.integers(0, 10**6), value=VALUES)
def test_garbage_on_one_device_leaves_the_others_as_they_were(
    paths: dict[str, list[str]], pick: int, value: bytes
) -> None:
    host = build(parse_spec("a2"), "node")
    before = {function.address: function for function in scan(host).functions}
    home = "/sys/devices/pci0000:00/0000:00:03.0/0000:08:00.0/"
    own = [path for path in paths["a2"] if path.startswith(home)]
    garbage(host, own, pick, value)
    inventory = scan(host)
    after = {function.address: function for function in inventory.functions}
    gpu = next(address for address in before if str(address) == "0000:08:00.0")
    before.pop(gpu)
    after.pop(gpu, None)
    assert after == before
    assert {error.device for error in inventory.errors} <= {str(gpu)}
    assert is_sound(inventory)
