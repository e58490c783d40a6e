"""Which kinds are served at this moment.

The built-in kinds first, then those of the CustomResourceDefinitions in the store. It follows the
store's commits, so a definition is served from the moment its creation is answered, and again
after a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite import builtin
from kapilite.admission.kinds import KINDS as ADMISSION
from kapilite.authorization.kinds import KINDS as AUTHORIZATION
from kapilite.definitions import crds
from kapilite.storage.events import as_object

if TYPE_CHECKING:
    from kapilite.kinds import Kind
    from kapilite.storage.events import Event
    from kapilite.storage.store import Store


BUILTIN = (*builtin.KINDS, *ADMISSION, *AUTHORIZATION)


class Registry:
    """The served kinds, by group, version and plural."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._custom: dict[str, list[Kind]] = {}
        for row in store.rows(builtin.CRDS):
            self._custom[row.name] = crds.kinds(as_object(row.body))
        self._rebuild()
        store.on_commit(self._follow)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(self._kinds.values())

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def of_resource(self, resource: str) -> Kind | None:
        """Any served version of a resource: enough where only storage is concerned."""
        return self._by_resource.get(resource)

    def of_kind(self, api_version: str, name: str) -> Kind | None:
        group = api_version.rpartition("/")[0]
        return self._by_kind.get((group, name))

    def _follow(self, event: Event) -> None:
        if event.key.resource != builtin.CRDS:
            return
        if event.change == "DELETED":
            self._custom.pop(event.key.name, None)
            self._store.fanout.end(event.key.name)
        else:
            self._custom[event.key.name] = crds.kinds(event.object)
        self._rebuild()

    def _rebuild(self) -> None:
        custom = [kind for name in sorted(self._custom) for kind in self._custom[name]]
        kinds = [*BUILTIN, *custom]
        self._kinds = {(kind.group, kind.version, kind.plural): kind for kind in kinds}
        self._by_resource = {kind.resource: kind for kind in reversed(kinds)}
        self._by_kind = {(kind.group, kind.kind): kind for kind in reversed(kinds)}
