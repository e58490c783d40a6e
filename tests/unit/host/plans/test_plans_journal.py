"""The journal of a plan: what a process finds that another one wrote until it was killed."""

from __future__ import annotations

import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laneway.core.pci import PciAddress
from laneway.core.plan import OverrideDriver, Plan, Probe, Unbind
from laneway.host.plans.files import StateError
from laneway.host.plans.journal import (
    Begin,
    Done,
    End,
    Intent,
    Journal,
    Record,
    Undo,
    Undone,
    read,
)
from support.examples import many

VF = PciAddress.parse("0000:08:00.4")
STEPS = (Unbind(VF, "nvme"), OverrideDriver(VF, "vfio-pci", ""), Probe(VF, "vfio-pci"))
BOOT = "boot"
INTENT = Intent(BOOT, "test", "because", Plan(STEPS))


def sealed(text: bytes) -> bytes:
    """A line that is as it was written."""
    return b"%08x %b\n" % (zlib.crc32(text), text)


def journal(folder: Path, *records: Record) -> str:
    written = Journal(str(folder / "plan-1.jsonl"))
    written.start(INTENT)
    for record in records:
        written.add(record)
    return written.path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = journal(
        tmp_path,
        Done(0, found=True),
        Begin(1, STEPS[1]),
        Done(1),
        Begin(2, STEPS[2]),
        Undo("no", 2, dirty=True),
        Undone(1, left_over=True),
    )

    written = read(path, BOOT)

    assert written is not None
    assert written.intent == INTENT
    assert written.steps == {1: STEPS[1], 2: STEPS[2]}
    assert (written.done, written.found) == ({0, 1}, {0})
    assert written.undo == Undo("no", 2, dirty=True)
    assert (written.undone, written.left_over) == (set(), {1})
    assert not written.ended


def test_an_ended_plan_is_known_and_leaves_no_journal(tmp_path: Path) -> None:
    path = journal(tmp_path, End())
    written = read(path, BOOT)
    assert written is not None
    assert written.ended

    Journal(path).end()

    assert list(tmp_path.iterdir()) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=many(60))
@given(torn=st.integers(min_value=1, max_value=200))
def test_a_torn_last_line_says_nothing_and_is_cut_off(tmp_path: Path, torn: int) -> None:
    path = Path(journal(tmp_path, Begin(0, STEPS[0]), Done(0)))
    whole = path.read_bytes()
    last = whole.rfind(b"\n", 0, -1) + 1
    path.write_bytes(whole[: max(last, len(whole) - torn)])

    written = read(str(path), BOOT)
    Journal(str(path)).add(Begin(1, STEPS[1]))
    again = read(str(path), BOOT)
    path.unlink()

    assert written is not None
    assert written.steps == {0: STEPS[0]}
    assert written.done == set()
    assert again is not None
    assert set(again.steps) == {0, 1}


def test_a_torn_first_line_means_that_nothing_was_done(tmp_path: Path) -> None:
    path = Path(journal(tmp_path))
    path.write_bytes(path.read_bytes()[:-1])
    assert read(str(path), BOOT) is None


@pytest.mark.parametrize(
    "damage",
    [
        b"{}\n",
        b'{"is":"done","index":0}\n',
        b"\xff\xfe\n",
        b"\n",
        sealed(b"{}"),
        sealed(b"\xff"),
        sealed(b'{"is":"done","index":3}'),
        sealed(b'{"is":"begin","index":-1,"step":{"type":"LoadModule","module":"x"}}'),
        sealed(b'{"is":"done"}'),
        sealed(b'{"is":"plan","boot":"b","actor":"a","reason":"r","plan":{"steps":[]}}'),
    ],
)
def test_damage_is_an_error_that_says_where_and_what_to_do(tmp_path: Path, damage: bytes) -> None:
    path = Path(journal(tmp_path))
    path.write_bytes(path.read_bytes() + damage)

    with pytest.raises(StateError, match="line 2, is damaged") as error:
        read(str(path), BOOT)

    assert str(path) in str(error.value)
    assert "remove that file" in str(error.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=many(200))
@given(content=st.binary(max_size=300))
def test_whatever_is_in_the_file_it_is_read_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "plan-1.jsonl"
    path.write_bytes(content)
    with suppress(StateError):
        written = read(str(path), BOOT)
        assert written is None or isinstance(written.intent, Intent)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=many(200))
@given(place=st.integers(min_value=0), bit=st.integers(0, 7))
def test_no_wrong_bit_makes_another_plan(tmp_path: Path, place: int, bit: int) -> None:
    """Else it could be one for another device."""
    path = Path(journal(tmp_path, Begin(0, STEPS[0]), Done(0)))
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 1 << bit
    path.write_bytes(content)

    with suppress(StateError):
        written = read(str(path), BOOT)
        assert written is None or written.intent == INTENT
        assert written is None or set(written.steps.values()) <= {STEPS[0]}
    path.unlink()


def test_a_journal_that_does_not_begin_with_a_plan_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "plan-1.jsonl"
    path.write_bytes(sealed(b'{"is":"done","index":0}'))
    with pytest.raises(StateError, match="does not start with a plan"):
        read(str(path), BOOT)


def test_a_plan_that_cannot_be_written_down_leaves_nothing_to_be_found(tmp_path: Path) -> None:
    written = Journal(str(tmp_path / "missing" / "plan-1.jsonl"))
    with pytest.raises(FileNotFoundError):
        written.start(INTENT)
    assert list(tmp_path.iterdir()) == []


def test_a_torn_record_stops_nothing_in_the_next_boot(tmp_path: Path) -> None:
    path = Path(journal(tmp_path, Begin(0, STEPS[0])))
    path.write_bytes(path.read_bytes() + bytes(40) + b'":3}\n')

    running, ended = read(str(path), "next"), path.read_bytes() + sealed(b'{"is":"end"}')
    path.write_bytes(ended)
    over = read(str(path), "next")

    assert running is not None
    assert running.intent == INTENT
    assert not running.ended
    assert over is not None
    assert over.ended
