"""Inventory files: what is written is read again, and nothing else is."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.fleet.inventory_file import InventoryError, read, write
from laneway.core.fleet.made_up import made_up
from laneway.core.fleet.model import Fleet, Vgpu, Vm

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
    assert read(text.encode()) == fleet
    assert write(read(text.encode()), as_json=as_json) == text


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
    ],
)
def test_an_error_names_its_place(change: dict[str, object], words: str) -> None:
    document = msgspec.json.decode(write(_BASE, as_json=True))
    document["fleet"]["gpus"][0] |= change
    with pytest.raises(InventoryError) as error:
        read(msgspec.json.encode(document))
    assert words in str(error.value)


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(InventoryError, match="version"):
        read(b"kind: FleetInventory\nversion: 2\nfleet: {}\n")
