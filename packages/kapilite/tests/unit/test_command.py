"""The command `kapilite`: what it prints, keeps and refuses."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kapilite.command import main


def refused(*arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["serve", "--port", "0", *arguments])
    return str(caught.value)


def test_a_server_in_memory_says_how_to_reach_it_and_leaves_nothing_behind() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "kapilite", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = list(iter(process.stdout.readline, "Stop with Ctrl-C.\n"))
        [export] = [line for line in lines if "export KUBECONFIG=" in line]
        kubeconfig = Path(export.partition("=")[2].strip())
        server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        assert lines[0] == f"kapilite serves the API of Kubernetes 1.32 at {server}\n"
        process.send_signal(signal.SIGHUP)  # as when its terminal is closed
        assert (process.stdout.read(), process.wait()) == ("Stopped.\n", 0)
    assert not kubeconfig.parent.exists()


def test_a_folder_of_another_user_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    assert refused("--data-dir", str(tmp_path)) == (
        f"kapilite: {tmp_path} is not empty and was not made by kapilite; "
        "choose an empty or new directory with --data-dir"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refused("--port", str(port)) == (
            f"kapilite: 127.0.0.1:{port} is in use by another program: "
            "stop what uses it, or choose another port"
        )


@pytest.mark.parametrize("port", ["65536", "-1", "x", "٣"])
def test_what_is_no_port_is_a_wrong_call(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused("--port", port) == "2"
    assert "port" in capsys.readouterr().err


def test_a_damaged_token_says_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short\n")
    assert refused("--data-dir", str(tmp_path)).startswith(
        f"kapilite: {tmp_path}/token is damaged: remove it and start again"
    )
