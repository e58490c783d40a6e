"""The kubeconfig holds all that a client needs, and only its owner can read it."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

import pytest
import yaml

from kapilite.credentials import kubeconfig
from kubebasics.files import write_atomically


def test_a_token_is_written_with_server_and_authority(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    kubeconfig.write(str(path), server="https://127.0.0.1:6443", ca_pem=b"CA", token="t: #1")
    config = yaml.safe_load(path.read_bytes())
    assert config["kind"] == "Config"
    assert config["current-context"] == "kapilite"
    (context,) = config["contexts"]
    assert context == {"name": "kapilite", "context": {"cluster": "kapilite", "user": "kapilite"}}
    (cluster,) = config["clusters"]
    assert cluster["cluster"] == {
        "server": "https://127.0.0.1:6443",
        "certificate-authority-data": base64.b64encode(b"CA").decode(),
    }
    assert config["users"] == [{"name": "kapilite", "user": {"token": "t: #1"}}]


def test_only_the_owner_can_read_it_whatever_was_there_before(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("old")
    path.chmod(0o644)
    kubeconfig.write(str(path), server="https://x", ca_pem=b"CA", token="t")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_public_file_may_be_read_by_others(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    write_atomically(str(path), b"CA", 0o644)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(str(path), b"new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]
