"""Addresses as the running kernel tells them, in our own network namespace and in another."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from laneway.host.addresses import node_addresses

IN_A_NAMESPACE = """
import fcntl, socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def set(request, value):
    fcntl.ioctl(s, request, struct.pack("16s16s", b"lo", value))
set(0x8916, struct.pack("H2x4s8x", socket.AF_INET, socket.inet_aton("198.51.100.7")))  # SIOCSIFADDR
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """A network namespace whose only interface, down as it is, has an address."""
    argv = ["unshare", "--net", "--map-root-user", sys.executable, "-c", IN_A_NAMESPACE]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            pytest.skip("no network namespace can be made here")
        yield f"/proc/{process.pid}/ns/net"
        process.communicate()


def test_our_own_addresses_are_those_of_the_machine() -> None:
    found = {one.interface: one for one in node_addresses("/proc/self/ns/net")}
    assert found["lo"].address in ("127.0.0.1/8", "::1/128")
    assert not found["lo"].link_local


def test_the_question_is_asked_in_the_nodes_own_namespace(elsewhere: str) -> None:
    try:
        found = node_addresses(elsewhere)
    except PermissionError:
        pytest.skip("only root may look into another network namespace")
    assert [(one.interface, one.address) for one in found] == [("lo", "198.51.100.7/24")]
    # The thread that asked is gone: this process is where it was.
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
