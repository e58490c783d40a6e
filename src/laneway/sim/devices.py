"""The devices of a simulated host: they come and go as files and are announced as kernel events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from laneway.core.kernel.uevent import Uevent
from laneway.sim.dump import Block
from laneway.sim.load import change, install, kernel_properties, uninstall
from laneway.sim.tree import Tree


class Devices:
    """What is installed in a tree, by path below /sys. Not locked: its host serialises access."""

    def __init__(self, tree: Tree, emit: Callable[[Uevent], None]) -> None:
        self.tree = tree
        self._emit = emit
        self.leaving: Callable[[str], None] = lambda _path: None
        """Called with every device right before it goes."""
        self._blocks: dict[str, Block] = {}
        self._sequence = 0
        self.owners: dict[str, tuple[int, int]] = {}
        """User and group of device nodes that were given away, by name below /dev."""

    def __contains__(self, path: str) -> bool:
        return path in self._blocks

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def __getitem__(self, path: str) -> Block:
        return self._blocks[path]

    def get(self, path: str) -> Block | None:
        return self._blocks.get(path)

    def load(self, blocks: Iterable[Block]) -> None:
        """Install devices that were there before anybody could listen."""
        for block in blocks:
            install(self.tree, block)
            self._blocks[block.path] = block

    def add(self, block: Block) -> None:
        self.load([block])
        self.announce("add", block.path)
        if "DRIVER" in block.properties:
            self.announce("bind", block.path)

    def remove(self, path: str) -> Block:
        self.leaving(path)
        block = self._blocks[path]
        if "DRIVER" in block.properties:
            self.announce("unbind", path)
        self.announce("remove", path)
        uninstall(self.tree, block)
        self.owners.pop(block.node, None)
        del self._blocks[path]
        return block

    def set_driver(self, path: str, driver: str) -> None:
        """Link a device to a driver, or to none (empty); nothing is announced."""
        block = self._blocks[path]
        properties = {k: v for k, v in block.properties.items() if k != "DRIVER"}
        if driver:
            properties = {"DRIVER": driver, **properties}
        self._replace(
            block,
            properties=properties,
            # What a dump recorded of the driver that it had is no longer so.
            attributes={k: v for k, v in block.attributes.items() if k != "uevent"},
            links={k: v for k, v in block.links.items() if k != "driver"},
        )

    def set_attribute(self, path: str, name: str, value: str) -> None:
        """Give an attribute a new line of text."""
        block = self._blocks[path]
        self._replace(block, attributes={**block.attributes, name: f"{value}\n".encode()})

    def set_link(self, path: str, name: str, target: str) -> None:
        """Place a link in a device's directory, or remove it (empty)."""
        block = self._blocks[path]
        links = {k: v for k, v in block.links.items() if k != name}
        self._replace(block, links={**links, name: target} if target else links)

    def _replace(self, block: Block, **changes: object) -> None:
        new = msgspec.structs.replace(block, **changes)
        change(self.tree, block, new)
        self._blocks[block.path] = new

    def below(self, path: str) -> list[str]:
        """The device itself and all below it, in the order in which they go: deepest first."""
        inside = path + "/"
        found = [p for p in self._blocks if p == path or p.startswith(inside)]
        return sorted(found, key=lambda p: (-p.count("/"), p))

    def announce(self, action: str, path: str, **more: str) -> None:
        """Emit a kernel event about a device."""
        self._sequence += 1
        block = self._blocks[path]
        properties = {"ACTION": action, "DEVPATH": path}
        if "SUBSYSTEM" in block.properties:
            properties["SUBSYSTEM"] = block.properties["SUBSYSTEM"]
        properties |= kernel_properties(block) | more | {"SEQNUM": str(self._sequence)}
        self._emit(Uevent(action, path, properties))
