"""The files of a simulated host: directories, attributes and links in memory.

Every access answers as the kernel does for root on sysfs, down to the errno: a link is followed
relative to where it is stored, 40 links are a loop, and an attribute without a store function
refuses writing with EACCES although root asks. Nodes are plain dicts, bytes and text, because a
rack of simulated servers holds millions of them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import TypeAlias

_MAX_LINKS = 40


class Directory(dict[str, "Node"]):
    """Names to nodes."""

    __slots__ = ()


class Attribute:
    """A file with behaviour: what reading computes and what writing does."""

    __slots__ = ("show", "store")

    def __init__(
        self,
        show: Callable[[], bytes] | None = None,
        store: Callable[[str], None] | None = None,
    ) -> None:
        self.show = show
        self.store = store


Node: TypeAlias = Directory | Attribute | bytes | str
"""Bytes are the content of a read-only file, text is the target of a symbolic link."""


class Tree:
    """A file system root. Not locked: its owner serialises access."""

    def __init__(self) -> None:
        self._root = Directory()

    # ------------------------------------------------------------------- what a host port needs

    def read(self, path: str) -> bytes:
        node = self._walk(path)[0]
        if isinstance(node, bytes):
            return node
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        if isinstance(node, str) or node.show is None:
            raise os_error(errno.EACCES, path)
        return node.show()

    def names(self, path: str) -> list[str]:
        return list(self._directory(path))

    def entries(self, path: str) -> dict[str, bool]:
        return {name: isinstance(node, Directory) for name, node in self._directory(path).items()}

    def readlink(self, path: str) -> str:
        node = self._walk(path, follow_last=False)[0]
        if not isinstance(node, str):
            raise os_error(errno.EINVAL, path)
        return node

    def resolve(self, path: str) -> str:
        return "/" + "/".join(self._walk(path)[1])

    def exists(self, path: str) -> bool:
        try:
            self._walk(path)
        except OSError:
            return False
        return True

    def store(self, path: str) -> Callable[[str], None]:
        """What writing to the path does; raises what opening it for writing would."""
        node = self._walk(path)[0]
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        if not isinstance(node, Attribute) or node.store is None:
            raise os_error(errno.EACCES, path)
        return node.store

    # ------------------------------------------------------------------- what its builder needs

    def top(self) -> dict[str, Directory]:
        """The folders of the root."""
        return {name: node for name, node in self._root.items() if isinstance(node, Directory)}

    def take(self, folders: Mapping[str, Directory]) -> None:
        """Place folders in the root, as they are."""
        self._root.update(folders)

    def mkdir(self, path: str) -> Directory:
        """The directory at `path`, made with its parents where it is missing; follows no link."""
        here = self._root
        for name in _parts(path):
            child = here.get(name)
            if child is None:
                child = here[name] = Directory()
            if not isinstance(child, Directory):
                raise os_error(errno.ENOTDIR, path)
            here = child
        return here

    def put(self, path: str, node: Node) -> None:
        """Place a node; a directory is never replaced, nor replaces anything."""
        parent, _, name = path.rpartition("/")
        _place(self.mkdir(parent), name, node, path)

    def put_all(self, home: str, nodes: Mapping[str, bytes] | Mapping[str, str]) -> None:
        """Place nodes by their paths below a directory."""
        directory = self.mkdir(home)
        for name, node in nodes.items():
            if "/" in name:
                self.put(f"{home}/{name}", node)
            else:
                _place(directory, name, node, f"{home}/{name}")

    def link(self, path: str, target: str) -> None:
        """Place a symbolic link to an absolute path, stored relative as sysfs does."""
        start, goal = path.split("/")[:-1], target.split("/")
        same = takewhile(lambda pair: pair[0] == pair[1], zip(start, goal, strict=False))
        shared = sum(1 for _ in same)
        self.put(path, "/".join([".."] * (len(start) - shared) + goal[shared:]))

    def get(self, path: str) -> Node | None:
        """The node itself, no link followed on the way."""
        here: Node | None = self._root
        for name in _parts(path):
            if not isinstance(here, Directory):
                return None
            here = here.get(name)
        return here

    def discard(self, path: str) -> None:
        """Remove a node with all below it; nothing happens when it is not there."""
        parent, _, name = path.rpartition("/")
        directory = self.get(parent)
        if isinstance(directory, Directory):
            directory.pop(name, None)

    def _directory(self, path: str) -> Directory:
        node = self._walk(path)[0]
        if not isinstance(node, Directory):
            raise os_error(errno.ENOTDIR, path)
        return node

    def _walk(self, path: str, *, follow_last: bool = True) -> tuple[Node, list[str]]:
        """The node at `path` and the names that lead to it once links are resolved."""
        if not path.startswith("/"):
            raise os_error(errno.ENOENT, path)
        todo = path.split("/")[::-1]
        above: list[Directory] = []
        here = self._root
        names: list[str] = []
        links = 0
        while todo:
            name = todo.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if above:
                    here = above.pop()
                    names.pop()
                continue
            node = here.get(name)
            if node is None:
                raise os_error(errno.ENOENT, path)
            if isinstance(node, Directory):
                above.append(here)
                here = node
                names.append(name)
            elif isinstance(node, str) and (follow_last or todo):
                links += 1
                if links > _MAX_LINKS:
                    raise os_error(errno.ELOOP, path)
                if node.startswith("/"):
                    above, here, names = [], self._root, []
                todo += node.split("/")[::-1]
            elif todo:
                raise os_error(errno.ENOTDIR, path)
            else:
                return node, [*names, name]
        return here, names


def _place(directory: Directory, name: str, node: Node, path: str) -> None:
    if isinstance(directory.get(name), Directory) or (
        isinstance(node, Directory) and name in directory
    ):
        raise os_error(errno.EEXIST, path)
    directory[name] = node


def _parts(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def os_error(number: int, path: str | None = None) -> OSError:
    """The error that the kernel reports by a number."""
    return OSError(number, os.strerror(number), path)
