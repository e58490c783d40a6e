"""Inventory files: what is written is read again, and nothing else is."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.fleet.inventory_file import InventoryError, read, write
from laneway.core.fleet.made_up import made_up
from laneway.core.fleet.model import Device, Fleet, Vgpu, Vm

_BASE = made_up("2x l40s, a40*2")
_TEXT = st.text(min_size=1, max_size=8)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    vm = draw(_TEXT)
    gpu = msgspec.structs.replace(
        _BASE.gpus[0],
        vgpus=(
            Vgpu(
                name=draw(_TEXT),
                profile=draw(_TEXT),
                holder=draw(st.sampled_from([vm, ""])),
                slot=draw(st.none() | st.integers(0, 1023)),
            ),
        ),
        ecc=draw(st.none() | st.booleans()),
    )
    requests = draw(st.dictionaries(_TEXT, st.integers(0, 100)))
    labels = draw(st.dictionaries(_TEXT, _TEXT))
    vms = (Vm(name=vm, requests=requests, labels=labels),)
    return msgspec.structs.replace(_BASE, gpus=(gpu, *_BASE.gpus[1:]), vms=vms)


@given(fleets(), st.booleans())
def test_what_is_written_is_read_again(fleet: Fleet, as_json: bool) -> None:
    text = write(fleet, as_json=as_json)
    found = read(text.encode())
    assert msgspec.structs.replace(found, unreadable=()) == fleet
    again = write(found, as_json=as_json)
    assert write(read(again.encode()), as_json=as_json) == again


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_file_are_refused(content: bytes) -> None:
    with pytest.raises(InventoryError):
        read(content)


@given(st.data(), _VALUES)
def test_a_value_in_the_wrong_place_never_ends_in_anything_but_a_refusal(
    data: st.DataObject, value: object
) -> None:
    document = msgspec.json.decode(write(_BASE, as_json=True))
    fleet = document["fleet"]
    where = data.draw(
        st.sampled_from([document, fleet, fleet["nodes"][0], fleet["gpus"][0]]), label="where"
    )
    where[data.draw(st.sampled_from([*where, "instances", "vgpus", "new"]))] = value
    with contextlib.suppress(InventoryError):
        read(msgspec.json.encode(document))


def _carrying(*profiles: str) -> dict[str, object]:
    return {"vgpus": [{"name": f"v{n}", "profile": one} for n, one in enumerate(profiles)]}


def _instances(*runs: tuple[int, int]) -> dict[str, object]:
    """GPU instances by start and size."""
    every = [
        {"id": n, "profile": "1g.5gb", "profile_id": 19, "start": start, "size": size}
        for n, (start, size) in enumerate(runs)
    ]
    return {"instances": every}


def _kind(size: int = 1, total: int = 7) -> dict[str, object]:
    kind = {"name": "1g.5gb", "id": 19, "total": total, "starts": [0], "size": size}
    return {"instance_profiles": [kind]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"colour": 1}, "fleet.gpus[0]: object contains unknown field colour"),
        ({"name": 1}, "fleet.gpus[0].name: expected str, got int"),
        ({"node": "n9"}, "fleet.gpus[0].node: fleet.nodes has no node 'n9'"),
        ({"mode": "Other"}, "fleet.gpus[0].mode: no mode 'Other'"),
        ({"device": "26B9"}, "fleet.gpus[0].device: write the PCI device id as four digits"),
        (_carrying("NVIDIA FOO-1Q"), "fleet.gpus[0].vgpus[0].profile: the board has no NVIDIA FOO"),
        (_carrying(*["NVIDIA L40S-48Q"] * 2), "fleet.gpus[0].vgpus: they take 96 GiB, the GPU has"),
        (_instances((0, 1 << 30)), "fleet.gpus[0].instances[0]: a GPU instance takes one or more"),
        (_instances((-1, 1)), "fleet.gpus[0].instances[0]: a GPU instance takes one or more"),
        (_instances((0, 4), (3, 1)), "fleet.gpus[0].instances[1]: another GPU instance has these"),
        (_kind(size=1 << 30), "fleet.gpus[0].instance_profiles[0]: a GPU instance takes one or"),
        (_kind(size=0), "fleet.gpus[0].instance_profiles[0]: a GPU instance takes one or more"),
        (_kind(total=1 << 30), "fleet.gpus[0].instance_profiles[0]: a GPU has at most 16"),
    ],
)
def test_an_error_names_its_place(change: dict[str, object], words: str) -> None:
    document = msgspec.json.decode(write(_BASE, as_json=True))
    document["fleet"]["gpus"][0] |= change
    with pytest.raises(InventoryError) as error:
        read(msgspec.json.encode(document))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("gpus", "fleet.gpus[6].name: 'l40s-1-000001000' is used twice"),
        ("devices", "fleet.devices[1].name: 'n' is used twice"),
        ("gpus.0.vgpus", "fleet.gpus[0].vgpus[2].name: 'a' is used twice"),
    ],
)
def test_a_name_that_stands_for_two_things_is_refused(path: str, words: str) -> None:
    with pytest.raises(InventoryError) as error:
        read(_repeated(path))
    assert words in str(error.value)


def test_a_name_that_is_free_on_one_gpu_is_taken_on_another() -> None:
    document = msgspec.json.decode(write(_HELD, as_json=True))
    first, second, *_ = document["fleet"]["gpus"]
    second["vgpus"] = first["vgpus"]
    with pytest.raises(InventoryError, match=r"gpus\[1\].vgpus\[0\].name: 'a' is used twice"):
        read(msgspec.json.encode(document))
    second["vgpus"], second["address"] = [], first["address"]
    with pytest.raises(InventoryError, match=r"gpus\[1\].address: .* is used twice"):
        read(msgspec.json.encode(document))


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(InventoryError, match="version"):
        read(b"kind: FleetInventory\nversion: 2\nfleet: {}\n")


# ----------------------------------------------------------------- names that nothing explains

_HELD = msgspec.structs.replace(
    _BASE,
    gpus=(
        msgspec.structs.replace(
            _BASE.gpus[0],
            mode="SameSize",
            vgpus=(
                Vgpu(name="a", profile="NVIDIA L40S-24Q", holder="d/a"),
                Vgpu(name="b", profile="NVIDIA L40S-24Q"),
            ),
        ),
        *_BASE.gpus[1:],
    ),
    devices=(Device(name="n", node="l40s-1", resource="example.com/nic", holder="d/a"),),
    vms=(
        Vm(
            name="d/a",
            node="l40s-1",
            requests={"nvidia.com/NVIDIA_L40S-24Q": 1, "example.com/nic": 1},
        ),
    ),
)
_NAMED = {
    "gpus.0.vgpus.0.holder": "fleet.gpus[0].vgpus[0].holder: fleet.vms has no ",
    "gpus.0.vgpus.0.profile": "fleet.gpus[0].vgpus[0].profile: ",
    "gpus.0.profiles.0": "fleet.gpus[0].profiles[0]: ",
    "gpus.0.node": "fleet.gpus[0].node: fleet.nodes has no node ",
    "devices.0.holder": "fleet.devices[0].holder: fleet.vms has no ",
    "devices.0.node": "fleet.devices[0].node: fleet.nodes has no node ",
    "vms.0.name": "fleet.gpus[0].vgpus[0].holder: fleet.vms has no 'd/a'",
    "vms.0.node": "fleet.vms[0].node: fleet.nodes has no node ",
}
"""What is renamed, and how the place that it makes wrong is told."""


def _renamed(path: str, name: str) -> bytes:
    document = msgspec.json.decode(write(_HELD, as_json=True))
    *parts, last = path.split(".")
    where = document["fleet"]
    for part in parts:
        where = where[int(part) if part.isdecimal() else part]
    where[int(last) if last.isdecimal() else last] = name
    return msgspec.json.encode(document)


def _repeated(path: str) -> bytes:
    """With the first thing of a list once more at its end."""
    document = msgspec.json.decode(write(_HELD, as_json=True))
    where = document["fleet"]
    for part in path.split("."):
        where = where[int(part) if part.isdecimal() else part]
    where.append(where[0])
    return msgspec.json.encode(document)


_SOME = st.text(min_size=1, max_size=12) | st.sampled_from(["NVIDIA A40-8Q", "GRID A100-1-5C"])


@given(st.sampled_from(sorted(_NAMED)), _SOME)
def test_a_name_that_nothing_explains_is_refused_or_told_with_its_place(
    path: str, name: str
) -> None:
    try:
        said = read(_renamed(path, name)).unreadable
    except InventoryError as error:
        said = (str(error),)
    assert any(one.startswith(_NAMED[path]) for one in said)


def test_what_follows_from_an_unknown_name_is_told_and_what_helps() -> None:
    [holder, lacking] = read(_renamed("gpus.0.vgpus.0.holder", "d/b")).unreadable
    assert holder == (
        "fleet.gpus[0].vgpus[0].holder: fleet.vms has no 'd/b'. The device counts as in use and "
        "stays where it is. If the name was typed, correct it; if the VM is real, add it to "
        "fleet.vms"
    )
    assert lacking.startswith(
        "fleet.vms[0].requests: it runs with 1 x nvidia.com/NVIDIA_L40S-24Q, and the file has 0 "
        "that it holds"
    )
    assert read(write(_HELD).encode()).unreadable == ()


def test_a_vgpu_in_a_mode_that_has_no_such_vgpus_is_told() -> None:
    document = msgspec.json.decode(write(_HELD, as_json=True))
    document["fleet"]["gpus"][0]["mode"] = "MIGBacked"
    [first, *_] = read(msgspec.json.encode(document)).unreadable
    assert "NVIDIA L40S-24Q cannot be on a GPU in the mode MIGBacked" in first


def test_a_running_vm_with_a_profile_of_no_gpu_of_the_file_is_told() -> None:
    document = _renamed("gpus.0.vgpus.0.holder", "")
    asks = document.replace(b"nvidia.com/NVIDIA_L40S-24Q", b"nvidia.com/NVIDIA_L40S-25Q")
    [told] = read(asks).unreadable
    assert told == (
        "fleet.vms[0].requests: it runs with 1 x nvidia.com/NVIDIA_L40S-25Q, and no GPU of the "
        "file has this profile. What it has is missing in the plan. Correct the name of the "
        "profile, or add the GPU to the file"
    )


def test_two_sizes_on_a_gpu_of_one_size_are_told() -> None:
    document = msgspec.json.decode(_renamed("gpus.0.vgpus.1.profile", "NVIDIA L40S-8Q"))
    [told] = read(msgspec.json.encode(document)).unreadable
    assert told == (
        "fleet.gpus[0].vgpus: NVIDIA L40S-24Q, NVIDIA L40S-8Q have different sizes, and the GPU is "
        "in the mode SameSize. Correct the mode, or the profile"
    )
    document["fleet"]["gpus"][0]["mode"] = "MixedSize"
    assert read(msgspec.json.encode(document)).unreadable == ()


def test_many_alike_are_counted() -> None:
    vgpus = tuple(Vgpu(name=f"v{n}", profile="NVIDIA L40S-1Q", holder="d/x") for n in range(20))
    gpu = msgspec.structs.replace(_BASE.gpus[0], vgpus=vgpus)
    fleet = msgspec.structs.replace(_BASE, gpus=(gpu, *_BASE.gpus[1:]))
    told = read(write(fleet).encode()).unreadable
    assert len(told) == 6
    assert told[-1].startswith("15 more places of the file are alike.")
    assert read(write(read(write(fleet).encode())).encode()).unreadable == told
