"""Collections of which the server chooses by a field that it may not know.

Custom resources can be chosen by the `selectableFields` of their definition. Kubernetes has these
since 1.31, and a definition has them once it is brought up to date; until then the server refuses
the selector. Then all objects are listed and watched, and a reader of the cache must expect those.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from laneway.kube.client import PAGE, Client, Page
from laneway.kube.errors import BadRequestError
from laneway.kube.informer import Informer
from laneway.kube.resource import Resource, T


async def list_narrowed(
    client: Client, resource: Resource[T], field_selector: str, *, limit: int = PAGE
) -> AsyncGenerator[Page, None]:
    """The pages of the objects that are chosen, or of all. Raises KubeError.

    `limit`: of the objects in a page of those that are chosen.
    """
    try:
        chosen = client.list(resource, field_selector=field_selector, limit=limit)
        async with aclosing(chosen) as pages:
            async for page in pages:
                yield page
    except BadRequestError:
        async with aclosing(client.list(resource)) as pages:
            async for page in pages:
                yield page


class NarrowedInformer(Informer[T]):
    """Keeps the objects that are chosen, or all while the server does not choose."""

    def __init__(
        self, client: Client, resource: Resource[T], *, narrow: str, **options: Any
    ) -> None:
        super().__init__(client, resource, **options)
        self._narrow = narrow

    async def _list(self, limit: int) -> None:
        self.field_selector = self._narrow
        try:
            await super()._list(limit)
        except BadRequestError:
            self.field_selector = ""
            await super()._list(limit)

    async def _watch(self) -> None:
        """Watch; where that is all objects, look first whether the server chooses by now."""
        if not self.field_selector and await self._is_chosen_by_now():
            await self._list(PAGE)
        try:
            await super()._watch()
        except BadRequestError:
            self.resource_version = ""  # An earlier definition is back: list what it allows.
            raise

    async def _is_chosen_by_now(self) -> bool:
        pages = self._client.list(self.resource, field_selector=self._narrow, limit=1)
        async with aclosing(pages):
            try:
                await anext(pages)
            except BadRequestError:
                return False
        return True
