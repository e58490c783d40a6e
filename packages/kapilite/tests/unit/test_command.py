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
        assert lines[0] == f"kapilite serves the API of Kubernetes 1.36 at {server}\n"
        process.send_signal(signal.SIGHUP)  # as when its terminal is closed
        assert (process.stdout.read(), process.wait()) == ("Stopped.\n", 0)
    assert not kubeconfig.parent.exists()


def test_ctrl_c_before_the_server_is_there_ends_it_without_a_traceback() -> None:
    code = (
        "import os, signal, sys, kapilite.command\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'kapilite.foreground': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "kapilite.command.main(['serve', '--port', '0'])\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_a_server_whose_reader_has_gone_serves_on_in_silence() -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "kapilite", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().split()[-1]
        process.stdout.close()  # as `head -1` does
        port = int(url.rpartition(":")[2])
        for _ in range(2):
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert (process.stderr.read(), process.wait()) == ("", 0)


def test_output_that_cannot_be_written_is_named() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "kapilite", "serve", "--port", "0"]
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.stderr == "kapilite: standard output: No space left on device\n"
    assert done.returncode == 1


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
            "stop what uses it, or choose another port with --port"
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
