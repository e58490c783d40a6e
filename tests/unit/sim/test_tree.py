"""Paths answer as on a real file system: the same result, or the same errno."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.sim.tree import Attribute, Tree
from support.examples import many

_NAME = st.sampled_from("abc")
_PLACE = st.lists(_NAME, min_size=1, max_size=3).map("/".join)
_PATH = st.lists(st.sampled_from(["a", "b", "c", "..", ".", ""]), max_size=6).map("/".join)
_NODE = st.one_of(
    st.tuples(st.just("directory"), st.just("")),
    st.tuples(st.just("file"), _NAME),
    st.tuples(st.sampled_from(["relative", "absolute"]), _PATH),
)


def _outcome(action: Callable[[str], object], path: str) -> object:
    try:
        result = action(path)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return sorted(result) if isinstance(result, list) else result


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


def _resolve(path: str) -> str:
    os.stat(path)
    return os.path.realpath(path)


@settings(max_examples=many(300), deadline=None)
@given(st.lists(st.tuples(_PLACE, _NODE), max_size=6), st.lists(_PATH, min_size=1, max_size=5))
def test_every_path_behaves_as_on_a_real_file_system(
    nodes: list[tuple[str, tuple[str, str]]], paths: list[str]
) -> None:
    tree = Tree()
    with tempfile.TemporaryDirectory() as above:
        # Deeper than six links and a path can climb, or they would show this machine's own root.
        root = os.path.join(os.path.realpath(above), *["deep"] * 50)
        os.makedirs(root)
        tree.mkdir(root)
        for place, (kind, value) in nodes:
            path = f"{root}/{place}"
            target = f"{root}/{value}" if kind == "absolute" else value
            if os.path.lexists(path) or (kind == "relative" and not value):
                continue
            if os.path.realpath(os.path.dirname(path)) != os.path.dirname(path):
                continue  # the tree's builder follows no links
            try:
                os.makedirs(path if kind == "directory" else os.path.dirname(path), exist_ok=True)
            except OSError:
                continue
            if kind == "directory":
                tree.mkdir(path)
            elif kind == "file":
                with open(path, "wb") as file:
                    file.write(value.encode())
                tree.put(path, value.encode())
            else:
                os.symlink(target, path)
                tree.put(path, target)
        for relative in paths:
            path = f"{root}/{relative}"
            for ours, real in (
                (tree.read, _read),
                (tree.resolve, _resolve),
                (tree.names, os.listdir),
                (tree.entries, _entries),
                (tree.readlink, os.readlink),
            ):
                assert _outcome(ours, path) == _outcome(real, path)
            assert tree.exists(path) == os.path.exists(path)


def _entries(path: str) -> dict[str, bool]:
    return {entry.name: entry.is_dir(follow_symlinks=False) for entry in os.scandir(path)}


@pytest.mark.parametrize("length", [39, 40, 41])
def test_as_many_links_are_followed_as_the_kernel_follows(tmp_path: Path, length: int) -> None:
    tree = Tree()
    tree.put(f"{tmp_path}/0", b"end")
    (tmp_path / "0").write_bytes(b"end")
    for number in range(length):
        tree.put(f"{tmp_path}/{number + 1}", str(number))
        (tmp_path / str(number + 1)).symlink_to(str(number))
    last = f"{tmp_path}/{length}"
    assert _outcome(tree.read, last) == _outcome(_read, last)


def test_attributes_refuse_what_they_have_no_function_for() -> None:
    tree = Tree()
    tree.put("/sys/plain", b"1\n")
    tree.put("/sys/computed", Attribute(show=lambda: b"2\n"))
    tree.put("/sys/command", Attribute(store=lambda data: None))
    assert tree.read("/sys/computed") == b"2\n"
    for action in (
        lambda: tree.store("/sys/plain"),
        lambda: tree.store("/sys/computed"),
        lambda: tree.read("/sys/command"),
    ):
        with pytest.raises(PermissionError):
            action()
    with pytest.raises(IsADirectoryError):
        tree.store("/sys")
    with pytest.raises(FileNotFoundError):
        tree.store("/sys/none")


def test_what_is_put_never_replaces_a_directory() -> None:
    tree = Tree()
    tree.put("/sys/a/b", b"")
    with pytest.raises(FileExistsError):
        tree.put("/sys/a", b"")
    with pytest.raises(NotADirectoryError):
        tree.put("/sys/a/b/c", b"")


def test_a_link_is_stored_relative_to_its_own_directory() -> None:
    tree = Tree()
    tree.put("/sys/devices/x/value", b"1\n")
    tree.link("/sys/bus/pci/devices/x", "/sys/devices/x")
    assert tree.readlink("/sys/bus/pci/devices/x") == "../../../devices/x"
    assert tree.resolve("/sys/bus/pci/devices/x/value") == "/sys/devices/x/value"
