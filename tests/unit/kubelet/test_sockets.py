"""Sockets have names that any kubelet can take."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.api.kubelet.sockets import listen
from laneway.core import names
from laneway.kubelet.sockets import endpoint, hashed_endpoint, identity


@given(
    st.text()
    | st.tuples(st.text(), st.text(min_size=40)).map("/".join)
    | st.from_regex(r"[a-z0-9.-]{1,60}/[A-Za-z0-9._-]{1,80}", fullmatch=True)
)
def test_any_resource_has_a_socket_that_a_kubelet_can_reach(resource: str) -> None:
    for name in (endpoint(resource), hashed_endpoint(resource)):
        assert len(os.fsencode(names.PLUGIN_DIRECTORY + name)) <= 107
        assert os.path.basename(name) == name
        assert "\0" not in name
        assert name.endswith(".sock")


@given(st.text(), st.text())
def test_names_that_laneway_makes_keep_the_contracts_socket(vendor: str, product: str) -> None:
    resource = names.pci_resource_name(vendor, product, "20b0")
    assert names.PLUGIN_DIRECTORY + endpoint(resource) == names.socket_path(resource)


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        ("nvidia.com/NVIDIA_A2-2Q", "kubevirt-nvidia.com-NVIDIA_A2-2Q.sock"),
        ("kubevirt.io/node7-046d-c52b-003011", "kubevirt-usb-node7-046d-c52b-003011.sock"),
    ],
)
def test_sockets_are_named_by_the_contract(resource: str, name: str) -> None:
    assert endpoint(resource) == name


def test_a_socket_takes_the_place_of_one_that_was_left(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 200)
    folder.mkdir()
    path = str(folder / "a.sock")
    assert identity(path) is None
    listen(str(folder), "a.sock").close()
    left = identity(path)
    with listen(str(folder), "a.sock") as listener:
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        assert identity(path) not in (None, left)
