"""What the driver tells of a card's identity, and what is not believed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.pci import PciAddress
from laneway.host.nvidia.identity import read_identities
from laneway.host.scan import scan
from laneway.sim.spec import build, parse_spec

FIRST, SECOND = PciAddress.parse("0000:17:00.0"), PciAddress.parse("0000:98:00.0")
UUID = "GPU-11111111-2222-3333-4444-555555555555"


class Reported:
    """Two L40S of which the driver says something else than the simulation."""

    def __init__(self, **texts: Any) -> None:
        self.host = build(parse_spec("l40s"), "node1")
        self.texts = {f"/proc/driver/nvidia/gpus/{FIRST}/information": texts.get("first")}
        self.texts[f"/proc/driver/nvidia/gpus/{SECOND}/information"] = texts.get("second")

    def read(self, path: str) -> bytes:
        text = self.texts.get(path)
        if isinstance(text, OSError):
            raise text
        return self.host.read(path) if text is None else text


def identities(**texts: Any) -> dict[PciAddress, str]:
    functions = scan(build(parse_spec("l40s"), "node1")).functions
    return read_identities(Reported(**texts), functions)  # type: ignore[arg-type]


def row(uuid: str) -> bytes:
    return f"Model: \t\t NVIDIA L40S\nGPU UUID: \t {uuid}\nBus Type: \t PCIe\n".encode()


def test_every_card_has_its_own() -> None:
    found = identities(first=row(UUID))

    assert found[FIRST] == UUID
    assert found[SECOND].startswith("GPU-")
    assert found[SECOND] != UUID


@pytest.mark.parametrize(
    "text",
    [
        row("GPU-????????-????-????-????-????????????"),
        row("N/A"),
        row(UUID) + row(UUID),
        row(UUID).replace(b"GPU UUID", b"Old GPU UUID"),
        row(f"{UUID}/../x"),
        row(UUID.replace("1", "\N{ARABIC-INDIC DIGIT ONE}")),
        b"\xff\xfe\0",
        b"",
        OSError(5, "Input/output error"),
    ],
)
def test_what_is_not_certain_is_not_known(text: Any) -> None:
    assert set(identities(first=text)) == {SECOND}


def test_a_uuid_that_two_cards_show_identifies_neither() -> None:
    assert identities(first=row(UUID), second=row(UUID)) == {}


@given(st.binary(max_size=300))
def test_no_text_of_a_driver_is_too_odd(text: bytes) -> None:
    assert SECOND in identities(first=text)


def test_a_card_of_another_driver_has_none() -> None:
    host = build(parse_spec("l40s"), "node1")
    host.write("/sys/bus/pci/drivers/nvidia/unbind", str(FIRST))

    assert set(scan(host).identities) == {SECOND}


def test_virtual_functions_know_their_card_and_number() -> None:
    inventory = scan(build(parse_spec("a2"), "node1"))

    assert {vgpu.card for vgpu in inventory.vgpus} == set(inventory.identities.values())
    assert [vgpu.number for vgpu in inventory.vgpus] == list(range(16))
