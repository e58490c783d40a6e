"""Tables of text, for terminals and for pipes."""

from __future__ import annotations

import re
import sys

import click
import pytest

from laneway.cli.capacity_tables import COLUMNS as CAPACITY
from laneway.cli.table import Column, Row, Section, fitted, indented, text

NOTE = "room for 16 x A2-1A/B/Q or 8 x A2-2A/B/Q or 4 x A2-4A/C/Q"
COLUMNS = (
    Column("GPU"),
    Column("BOARD", spare=True),
    Column("OWNER", wide=True),
    Column("STATE"),
)
ROW = Row(("0000:08:00.0", "A2", "VGPULayout a", "to be enabled: NoGpuInstances"), (NOTE,))
TABLE = [Section("node1", (ROW,))]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    return monkeypatch


def shown(*, wide: bool = False) -> list[str]:
    return click.unstyle(text(COLUMNS, TABLE, wide=wide)).splitlines()


def test_a_pipe_gets_each_device_on_one_line_however_long() -> None:
    assert shown() == [
        "GPU             BOARD  STATE",
        "node1",
        "  0000:08:00.0  A2     to be enabled: NoGpuInstances",
        f"    {NOTE}",
    ]
    assert shown(wide=True)[0] == "GPU             BOARD  OWNER         STATE"
    assert "\x1b" not in text(COLUMNS, TABLE)


def test_a_terminal_gets_lines_that_fit_and_break_between_words(
    terminal: pytest.MonkeyPatch,
) -> None:
    terminal.setenv("COLUMNS", "44")
    lines = shown()

    assert max(map(len, lines)) <= 44
    assert lines[0] == "GPU             STATE"  # the spare column goes before a cell is broken
    assert lines[2:4] == ["  0000:08:00.0  to be enabled:", "                NoGpuInstances"]
    words = set(re.findall(r"\S+", "".join(f"{line}\n" for line in lines)))
    assert set(NOTE.split()) <= words


def test_titles_break_as_cells_do(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "42")
    section = Section("", (Row(("0000:08:00.0", "i40e", "no")),))
    shown = (Column("ADDRESS"), Column("DRIVER"), Column("CAN BE GIVEN TO ANY VM"))
    lines = click.unstyle(text(shown, [section])).splitlines()
    assert max(map(len, lines)) <= 42
    assert lines[:2] == ["ADDRESS       DRIVER  CAN BE GIVEN TO ANY", "                      VM"]


def test_what_is_set_in_further_stays_so_where_it_breaks(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "40")
    lines = indented(f"  {NOTE}", 2)
    assert max(map(len, lines)) <= 40
    assert all(line.startswith("    ") and line[4] != " " for line in lines)


def test_a_wide_terminal_gets_all_columns(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "200")
    assert shown(wide=True)[2].split()[:3] == ["0000:08:00.0", "A2", "VGPULayout"]


def test_a_cell_has_the_colour_of_what_it_means(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "200")
    styled = text(COLUMNS, TABLE)
    assert click.style("to be enabled: NoGpuInstances", fg="yellow") in styled


def test_a_line_of_text_is_broken_for_a_terminal_only(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "40")
    assert max(map(len, fitted(NOTE, 10))) <= 30
    terminal.setattr(sys.stdout, "isatty", lambda: False)
    assert fitted(NOTE, 10) == [NOTE]


def test_capacity_keeps_what_is_free_on_a_narrow_terminal(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "60")
    row = Row(("intel.com/I350_GIGABIT_NETWORK_CONNECTION", *"610032"))
    lines = click.unstyle(text(CAPACITY, [Section("node1", (row,))])).splitlines()
    assert max(map(len, lines)) <= 60
    assert (lines[0].split(), lines[2].split()[1:]) == (["RESOURCE", "TOTAL", "FREE"], ["6", "3"])
