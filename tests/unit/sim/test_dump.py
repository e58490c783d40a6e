"""Dumps are read completely or refused in one clear line; what is written reads the same."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.sim import dump
from laneway.sim.dump import Block, DumpError, parse, render
from laneway.sim.host import SimulatedHost
from support.examples import many

_PART = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="/="),
    min_size=1,
    max_size=8,
).filter(lambda part: part not in (".", ".."))
_RELATIVE = st.lists(_PART, min_size=1, max_size=3).map("/".join)
_LINE = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12)
_BLOCK = st.builds(
    Block,
    path=_RELATIVE.map(lambda path: f"/devices/{path}"),
    properties=st.dictionaries(_PART, _LINE, max_size=3),
    attributes=st.dictionaries(_RELATIVE, st.binary(max_size=20), max_size=3),
    links=st.dictionaries(_RELATIVE, _LINE.filter(bool), max_size=3),
    node=_RELATIVE,
    node_content=st.binary(max_size=5),
    node_links=st.lists(_RELATIVE, max_size=2).map(tuple),
)

_SMALL = r"""P: /devices/pci0000:00/0000:00:03.0
N: bus/usb/001/002=1201
S: disk/by-id/x
E: DRIVER=nvidia
E: SUBSYSTEM=pci
A: label=say \"hi\"\ttwice\\\n
H: config=DE10B625
L: driver=../../../bus/pci/drivers/nvidia

"""


@settings(deadline=None)
@given(st.lists(_BLOCK, min_size=1, max_size=4, unique_by=lambda block: block.path))
def test_what_is_written_reads_the_same(blocks: list[Block]) -> None:
    assert parse(render(blocks)) == blocks


def test_a_real_dump_is_written_as_umockdev_writes_it(a2_dump_path: Path) -> None:
    blocks = dump.read(str(a2_dump_path))
    assert len(blocks) == 1188
    assert render(blocks) == a2_dump_path.read_text()


def test_every_kind_of_line_is_understood() -> None:
    (block,) = parse(_SMALL)
    assert block == Block(
        path="/devices/pci0000:00/0000:00:03.0",
        properties={"DRIVER": "nvidia", "SUBSYSTEM": "pci"},
        attributes={"label": b'say "hi"\ttwice\\\n', "config": b"\xde\x10\xb6\x25"},
        links={"driver": "../../../bus/pci/drivers/nvidia"},
        node="bus/usb/001/002",
        node_content=b"\x12\x01",
        node_links=("disk/by-id/x",),
    )


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bytes])
def test_dumps_may_be_compressed(tmp_path: Path, pack: object) -> None:
    path = tmp_path / "dump"
    path.write_bytes(pack(_SMALL.encode()))  # type: ignore[operator]
    assert dump.read(str(path)) == parse(_SMALL)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_cut_off_archive_is_refused(tmp_path: Path, pack: object) -> None:
    path = tmp_path / "dump"
    path.write_bytes(pack(_SMALL.encode())[:-12])  # type: ignore[operator]
    with pytest.raises(DumpError, match="cannot read the dump"):
        dump.read(str(path))


def test_an_archive_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(b"\n" * (dump.MAX_BYTES + 1)))
    with pytest.raises(DumpError, match="larger than 64 MiB"):
        dump.read(str(path))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no devices"),
        ("\n\n", "no devices"),
        ("hello\n", "line 1: expected 'P: "),
        ("P: /devices/a\nA: x=1\nA: y", "line 3: .* cut off"),
        ("P: /devices/a\nA: y\n", "line 2: .* no '='"),
        ("P: /devices/a\nH: c=ABC\n", "line 2: .*hexadecimal"),
        ("P: /devices/a\nA: c=1\\\n", "line 2: .*lone backslash"),
        ("P: /devices/a\nX: c=1\n", "line 2: unknown kind"),
        ("P: /devices/a\n\nP: /devices/a\n", "line 3: .*already described"),
        ("P: /etc/passwd\n", "line 1: .*not below /devices/"),
        ("P: /devices/../etc\n", "line 1: path"),
        ("P: /devices//a\n", "line 1: path"),
        ("P: /devices/a\nA: ../../x=1\n", "line 2: path"),
        ("P: /devices/a\nN: ../shadow\n", "line 2: path"),
        ("P: /devices/a\nS: /etc/x\n", "line 2: path"),
        ("P: /devices/a\nL: x/./y=z\n", "line 2: path"),
        ("P: /devices/a\nL: x=\n", "line 2: link target"),
        ("P: /devices/a\nE: =x\n", "line 2: .*no property name"),
        (f"P: /devices/{'a/' * 3000}a\n", "line 1: path"),
    ],
)
def test_damage_is_named_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(DumpError, match=complaint) as caught:
        parse(text, "my.umockdev")
    assert str(caught.value).startswith("my.umockdev")
    assert "\n" not in str(caught.value)


def test_too_many_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "MAX_DEVICES", 3)
    text = "".join(f"P: /devices/{number}\n\n" for number in range(4))
    with pytest.raises(DumpError, match="more than 3 devices"):
        parse(text)


def test_names_that_the_format_cannot_hold_are_not_written() -> None:
    for block in (
        Block(path="/devices/a", attributes={"x=y": b""}),
        Block(path="/devices/a", properties={"X": "1\n2"}),
    ):
        with pytest.raises(ValueError, match="cannot hold"):
            render([block])


@pytest.fixture(scope="module")
def gpu_text(a2_dump_path: Path) -> str:
    """The GPU's part of the real dump, without its configuration spaces."""
    blocks = [block for block in dump.read(str(a2_dump_path)) if "0000:08:" in block.path]
    return "".join(
        line for line in render(blocks).splitlines(True) if not line.startswith("H: config")
    )


@settings(max_examples=many(300), deadline=None)
@given(st.data())
def test_a_dump_cut_off_anywhere_loads_or_is_refused(gpu_text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(gpu_text)))
    _load_or_refuse(gpu_text[:cut])


@settings(max_examples=many(300), deadline=None)
@given(st.data())
def test_a_damaged_dump_loads_or_is_refused(gpu_text: str, data: st.DataObject) -> None:
    lines = gpu_text.splitlines(True)
    for _ in range(data.draw(st.integers(1, 5))):
        number = data.draw(st.integers(0, len(lines) - 1))
        line = lines[number]
        at = data.draw(st.integers(0, len(line)))
        junk = data.draw(st.text(st.sampled_from("/.=\n\\ \0PAELé:0-9"), max_size=4))
        lines[number] = line[:at] + junk + line[at + data.draw(st.integers(0, 4)) :]
    _load_or_refuse("".join(lines))


def _load_or_refuse(text: str) -> None:
    complaint = ""
    try:
        SimulatedHost("test", parse(text), {})
    except DumpError as error:
        complaint = str(error)
    assert "\n" not in complaint
