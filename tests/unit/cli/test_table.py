"""Tables of text."""

from __future__ import annotations

import sys

import pytest

from laneway.cli.table import Row, Section, echo

NOTE = "room for 16 x A2-1A/B/Q, 8 x A2-2A/B/Q, 4 x A2-4A/C/Q (each for itself)"
TABLE = Section("node1", (Row(("0000:08:00.0", "A2"), (NOTE,)),))


def test_a_terminal_gets_lines_that_break_between_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    echo(("GPU", "BOARD"), [TABLE])
    piped = capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    echo(("GPU", "BOARD"), [TABLE])
    shown = capsys.readouterr().out

    assert f"    {NOTE}\n" in piped
    assert max(map(len, shown.splitlines())) <= 40
    assert shown.split() == piped.split()
