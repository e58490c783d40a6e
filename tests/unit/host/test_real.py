"""The port on a directory: as the kernel answers, and never outside."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laneway.host.port import UeventsUnavailableError
from laneway.host.real import RealHost
from support.examples import many

Write = Callable[[Mapping[str, str]], str]


@pytest.fixture
def host(files: Write) -> RealHost:
    return RealHost(
        files(
            {
                "/sys/devices/pci0/dev/vendor": "0x10de\n",
                "/sys/bus/pci/devices/dev": "-> ../../../devices/pci0/dev",
                "/sys/absolute": "-> /sys/devices/pci0",
                "/sys/outside": "-> ../../../../../../../etc",
                "/sys/secret": "-> /etc/passwd",
                "/sys/loop": "-> loop",
                "/sys/empty": "",
                "/sys/attribute": "abcdef",
            }
        )
    )


def test_links_are_followed_as_on_the_node(host: RealHost) -> None:
    assert host.read("/sys/bus/pci/devices/dev/vendor") == b"0x10de\n"
    assert host.read("/sys/absolute/dev/vendor") == b"0x10de\n"
    assert host.read("/sys/bus/pci/devices/../devices/dev/vendor") == b"0x10de\n"
    assert host.names("/sys/absolute/dev") == ["vendor"]
    assert host.entries("/sys/bus/pci/devices") == {"dev": False}
    assert host.entries("/sys/absolute") == {"dev": True}
    assert host.readlink("/sys/bus/pci/devices/dev") == "../../../devices/pci0/dev"
    assert host.resolve("/sys/bus/pci/devices/dev") == "/sys/devices/pci0/dev"
    assert host.resolve("/") == "/"
    assert host.exists("/sys/absolute/dev")
    assert host.read("/sys/empty") == b""


def test_nothing_outside_the_root_is_reached(host: RealHost) -> None:
    assert os.path.exists("/etc/passwd")
    host.read("/sys/attribute")  # from here on the port knows that /sys is no link
    for path in (
        "/sys/secret",
        "/sys/outside/passwd",
        "/../../../../etc/passwd",
        "/sys/../../etc/passwd",
    ):
        assert not host.exists(path)
        with pytest.raises(FileNotFoundError):
            host.read(path)
        with pytest.raises(FileNotFoundError):
            host.resolve(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=many(300))
@given(
    st.lists(
        st.sampled_from(["..", ".", "", "sys", "etc", "outside", "absolute", "devices", "passwd"]),
        max_size=12,
    )
)
def test_no_path_resolves_to_anything_outside(host: RealHost, parts: list[str]) -> None:
    try:
        resolved = host.resolve("/" + "/".join(parts))
    except OSError:
        return
    # The tree holds neither the machine's /etc nor any link that is left.
    assert resolved == "/" or resolved.startswith("/sys")
    assert not {"etc", "passwd", "outside", "absolute"} & set(resolved.split("/"))


def test_failures_carry_the_errno_of_the_kernel(host: RealHost) -> None:
    for call, path, expected in (
        (host.read, "/sys/missing", errno.ENOENT),
        (host.read, "/sys/attribute/inside", errno.ENOTDIR),
        (host.read, "/sys/loop", errno.ELOOP),
        (host.read, "/sys/devices", errno.EISDIR),
        (host.names, "/sys/attribute", errno.ENOTDIR),
        (host.names, "/sys/missing", errno.ENOENT),
        (host.entries, "/sys/attribute", errno.ENOTDIR),
        (host.readlink, "/sys/attribute", errno.EINVAL),
        (host.resolve, "/sys/missing", errno.ENOENT),
    ):
        with pytest.raises(OSError, match=os.strerror(expected)):
            call(path)
    assert not host.exists("/sys/missing")
    assert not host.exists("/sys/loop")


def test_a_write_changes_what_is_there_and_makes_nothing(host: RealHost) -> None:
    host.write("/sys/attribute", "xy")
    assert host.read("/sys/attribute") == b"xycdef"  # an attribute is written, not replaced
    with pytest.raises(FileNotFoundError):
        host.write("/sys/new", "1")
    assert not host.exists("/sys/new")


def test_a_refused_write_names_the_file_and_what_the_kernel_said() -> None:
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as refused:
        RealHost().write("/dev/full", "1")
    assert refused.value.filename == "/dev/full"


def test_a_write_that_finds_nothing_names_the_file_as_on_the_node(host: RealHost) -> None:
    with pytest.raises(FileNotFoundError) as refused:
        host.write("/sys/new", "1")
    assert refused.value.filename == "/sys/new"


def test_long_files_are_read_to_their_end(files: Write) -> None:
    long = "0123456789abcdef" * 20_000
    host = RealHost(files({"/proc/1/mountinfo": long, "/sys/long": long, "/sys/page": "x" * 4096}))
    assert host.read("/proc/1/mountinfo") == long.encode()
    assert host.read("/sys/long") == long.encode()
    assert host.read("/sys/page") == b"x" * 4096


def test_the_start_of_a_file_is_all_that_is_read(host: RealHost) -> None:
    assert host.read_start("/sys/attribute", 4) == b"abcd"
    assert host.read_start("/sys/attribute", 64) == b"abcdef"
    with pytest.raises(FileNotFoundError):
        host.read_start("/sys/missing", 4)
    assert RealHost().read_start("/dev/zero", 64) == bytes(64)


def test_an_endless_file_is_an_error() -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        RealHost().read("/dev/zero")


def test_this_machine_is_the_default() -> None:
    assert RealHost().read("/proc/self/stat").startswith(str(os.getpid()).encode())
    assert RealHost().resolve("/proc/self") == f"/proc/{os.getpid()}"
    assert not RealHost().exists("/no/such/place")


async def test_a_copied_tree_has_no_events(tmp_path: Path) -> None:
    with pytest.raises(UeventsUnavailableError, match="is a copy"):
        async with RealHost(str(tmp_path)).uevents():
            pass
