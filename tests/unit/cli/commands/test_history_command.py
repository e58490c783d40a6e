"""`laneway history` asks only what has an answer, and its token goes to no one else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from laneway.cli.commands.history import history

EMPTY = {
    "recordedSince": "2026-01-01T00:00:00Z",
    "recording": True,
    "problem": "",
    "partial": False,
    "continue": "",
    "items": [],
}
BEGINS = "The history begins at 2026-01-01T00:00:00Z."


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://laneway.example.org", "is not encrypted, and gets your token"),
        ("http://127.0.0.1.example.org", "is not encrypted, and gets your token"),
        ("laneway.example.org", "is no address"),
        ("ftp://laneway.example.org", "is no address"),
    ],
)
def test_an_address_that_would_show_the_token_is_refused(url: str, why: str) -> None:
    done = CliRunner().invoke(history, ["--url", url])
    assert done.exit_code == 1
    assert why in done.output
    assert "give https://HOST" in done.output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--since", "2999-01-01T00:00:00Z"), "--since '2999-01-01T00:00:00Z' is not in the past"),
        (("--since", "0d"), "--since '0d' is not in the past"),
        (("--since", "yesterday"), "--since 'yesterday' is not a time"),
        (("--until", "tomorrow"), "--until 'tomorrow' is not a time"),
        (("--since", "1h", "--until", "2h"), "--until '2h' is not after --since '1h'"),
        (("--since", "1h", "--until", "1h"), "--until '1h' is not after --since '1h'"),
        (("--vm", "a/b/c"), "--vm 'a/b/c': no VM can have this name"),
        (("--vm", "default/"), "--vm 'default/': no VM can have this name"),
        (("--vm", "Web"), "--vm 'Web': no VM can have this name"),
    ],
)
def test_what_no_entry_can_match_is_called_wrongly(arguments: tuple[str, ...], why: str) -> None:
    done = CliRunner().invoke(history, arguments)
    assert done.exit_code == 2
    assert why in done.output


@pytest.mark.parametrize(
    ("arguments", "found", "words"),
    [
        ((), EMPTY, "No entry. An entry appears once a VM or pod holds a device."),
        (
            ("--vm", "desk", "--node", "n1", "--since", "2020-01-31", "--until", "1m"),
            EMPTY,
            f"No entry of VM default/desk, node n1 since 2020-01-31 until 1m ago. {BEGINS}",
        ),
        (
            ("--device", "d"),
            {**EMPTY, "recordedSince": None},
            "No entry of device d. Nothing was recorded yet.",
        ),
        (
            ("-n", "team"),
            {**EMPTY, "partial": True},
            f"No entry that you may see of namespace team. {BEGINS}",
        ),
    ],
)
def test_an_empty_answer_says_of_what(
    arguments: tuple[str, ...], found: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with _interface(found) as url:
        done = CliRunner().invoke(
            history, [*arguments, "--url", url, "--kubeconfig", _kubeconfig(tmp_path)]
        )
    assert (done.exit_code, done.stdout) == (0, f"{words}\n")


def test_a_kubeconfig_that_is_missing_is_the_only_cause_that_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(history, ["--kubeconfig", str(tmp_path / "none")])
    assert done.exit_code == 1
    assert str(tmp_path / "none") in done.output
    assert "--url" not in done.output


@contextmanager
def _interface(found: dict[str, Any]) -> Iterator[str]:
    """Answers every request with the same history."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _kubeconfig(folder: Path) -> str:
    file = folder / "kubeconfig"
    site = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    file.write_text(json.dumps(site))
    return str(file)
