"""What the long-running commands write to stderr."""

import json
import logging
from collections.abc import Iterator

import pytest

from laneway.cli.commands.options import LOG_LEVELS as LEVELS
from laneway.cli.logs import configure


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    yield
    root.handlers = handlers
    root.setLevel(level)
    logging.getLogger("aiohttp.access").setLevel(logging.NOTSET)


def test_outside_a_terminal_each_record_is_one_json_object(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure()
    logging.getLogger("laneway.test").warning("one\n%s", "two", extra={"node": "n1"})
    [line] = capsys.readouterr().err.splitlines()
    record = json.loads(line)
    assert record.pop("time").endswith("Z")
    assert record == {
        "level": "WARNING",
        "logger": "laneway.test",
        "message": "one\ntwo",
        "node": "n1",
    }


def test_exception_stays_inside_its_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    configure()
    try:
        int("boom")
    except ValueError:
        logging.getLogger("laneway.test").exception("failed")
    [line] = capsys.readouterr().err.splitlines()
    assert "boom" in json.loads(line)["exc_info"]


def test_readable_line_ends_with_the_extra_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "text")
    logging.getLogger("laneway.test").info("done", extra={"vgpu": "x"})
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("INFO    laneway.test: done  vgpu=x")


@pytest.mark.parametrize("level", LEVELS)
def test_level_is_a_threshold(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure(level)
    for name in LEVELS:
        getattr(logging.getLogger("laneway.test"), name)(name)
    said = [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()]
    assert said == list(LEVELS[LEVELS.index(level) :])


def test_access_log_is_for_debugging_only(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info")
    logging.getLogger("aiohttp.access").info("GET /")
    assert capsys.readouterr().err == ""
    configure("debug")
    logging.getLogger("aiohttp.access").info("GET /")
    assert "GET /" in capsys.readouterr().err


def test_a_readable_line_stays_one_line_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure("info", "text")
    try:
        "".encode("a\x1b[2Jb")
    except LookupError:
        logging.getLogger("laneway.test").exception("one\ntwo\x1b[31m", extra={"vm": "x\ry"})
    err = capsys.readouterr().err
    assert err.splitlines()[0].endswith("laneway.test: one two [31m  vm=x y")
    assert "\x1b" not in err
