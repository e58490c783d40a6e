"""What names and inventory paths mean.

A name is a path from the root (`/DC0/vm/nodes`), the end of a path (`nodes`, `C0/Resources/gpu`) or
a name with slashes in it; `*` and `?` stand for anything within a name (`*/Resources`), unless
something is called just so. Where it fits several objects, the one nearest to the top of its
datacenter is meant if there is just one such, as for govc; else none is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple, TypeVar

from laneway.vsphere.port import NotFoundInVCenterError
from laneway.vsphere.vcenter.escaping import is_pattern, like, parts, same, unescaped
from laneway.vsphere.vcenter.properties import Properties, read_view, ref_of
from laneway.vsphere.vcenter.pyvmomi import vim
from laneway.vsphere.vcenter.stub import Stub

T = TypeVar("T")

FEW = 5
"""The most names that a message lists."""

_BOTH = ("name", "parent")
_PATHS = {
    vim.Folder: _BOTH,
    vim.Datacenter: (*_BOTH, "vmFolder"),
    vim.ComputeResource: (*_BOTH, "resourcePool"),
    vim.HostSystem: _BOTH,
    vim.ResourcePool: _BOTH,
    vim.Datastore: _BOTH,
    vim.Network: _BOTH,
}


class Entity(NamedTuple):
    """An object of the inventory."""

    obj: Any
    name: str
    parent: str
    props: Properties

    @property
    def ref(self) -> str:
        return ref_of(self.obj)


class Names:
    """The names of a vCenter at one moment, but those of VMs."""

    def __init__(self, by_ref: dict[str, Properties]) -> None:
        self._entities = {
            ref: Entity(props[""], props["name"], ref_of(props.get("parent")), props)
            for ref, props in by_ref.items()
            if props.get("name")
        }

    @classmethod
    def read(cls, content: Any, stub: Stub) -> Names:
        return cls(read_view(content, stub, content.rootFolder, _PATHS))

    def find(self, kind: Any, desired: str, *, called: str, under: str = "") -> Entity:
        """The one object of a kind that a name, path or reference means, at or below another."""
        fitting = self.fitting(kind, desired, under=under)
        return self._only(fitting, self._of(kind, under), f"{called} {desired!r}")

    def fitting(self, kind: Any, desired: str, *, under: str = "") -> list[Entity]:
        """Those that may be meant: none, one, or several that nothing tells apart."""
        there = self._of(kind, under)
        if (meant := self._entities.get(desired)) in there:
            return [meant]
        fitting = [one for one in there if self._fits(desired, one, same)]
        if not fitting and is_pattern(desired):
            fitting = [one for one in there if self._fits(desired, one, like)]
        if len(fitting) > 1:
            top = min(len(self._chain(one)) for one in fitting)
            fitting = [one for one in fitting if len(self._chain(one)) == top]
        return fitting

    def only(self, kind: Any, *, called: str, under: str = "") -> Entity:
        """The one object of a kind, where nothing was said."""
        there = self._of(kind, under)
        return self._only(there, there, called)

    def get(self, ref: str, *, called: str) -> Entity:
        """By reference."""
        try:
            return self._entities[ref]
        except KeyError:
            raise NotFoundInVCenterError(f"there is no {called} {ref}") from None

    def path(self, one: Entity) -> str:
        """`/DC0/vm/nodes`."""
        return "/" + "/".join(each.name for each in self._chain(one))

    def above(self, one: Entity, kind: Any) -> Entity | None:
        """The nearest object of a kind that this one is below of."""
        while (one_above := self._entities.get(one.parent)) is not None:
            if isinstance(one_above.obj, kind):
                return one_above
            one = one_above
        return None

    def _of(self, kind: Any, under: str) -> list[Entity]:
        return [
            one
            for one in self._entities.values()
            if isinstance(one.obj, kind)
            and (not under or any(each.ref == under for each in self._chain(one)))
        ]

    def _chain(self, one: Entity) -> list[Entity]:
        """From the top to the object itself; the root folder is not shown to us."""
        chain = [one]
        while (above := self._entities.get(chain[-1].parent)) is not None:
            if len(chain) > len(self._entities):
                raise NotFoundInVCenterError("the folders of this vCenter contain each other")
            chain.append(above)
        return chain[::-1]

    def _fits(self, desired: str, one: Entity, fits: Callable[[str, str], bool]) -> bool:
        if fits(desired, one.name):
            return True
        names = parts(desired)
        chain = self._chain(one)
        if desired.startswith("/") and len(names) != len(chain):
            return False
        return 0 < len(names) <= len(chain) and all(
            fits(name, each.name)
            for name, each in zip(reversed(names), reversed(chain), strict=False)
        )

    def _only(self, fitting: Collection[Entity], there: Iterable[Entity], what: str) -> Entity:
        return only(
            fitting, [self.path(one) for one in fitting], [self.path(one) for one in there], what
        )


def only(fitting: Collection[T], meant: list[str], there: list[str], what: str) -> T:
    """The only one that fits; else an error that says what there is."""
    if len(fitting) == 1:
        return next(iter(fitting))
    if fitting:
        raise NotFoundInVCenterError(
            f"{what} is not unique: it may be {few(meant)}; give the whole path"
        )
    raise NotFoundInVCenterError(
        f"there is no {what}" + (f"; there is {few(there)}" if there else "")
    )


def few(names: Iterable[str]) -> str:
    """Some names, as people write them."""
    shown = sorted(unescaped(name) for name in names)
    more = f" and {len(shown) - FEW} more" if len(shown) > FEW else ""
    return ", ".join(shown[:FEW]) + more
