"""USB devices: the list of all, a page for each, and the forms that claim and release them."""

from __future__ import annotations

from laneway.web.claiming import change
from laneway.web.page import Action, Page
from laneway.web.pages.usb import detail, listing, moving
from laneway.web.pages.usb.family import FAMILY

PAGES: tuple[Page, ...] = (
    *listing.PAGES,
    *change.pages_of(FAMILY),
    *moving.PAGES,
    *detail.PAGES,
)
ACTIONS: tuple[Action, ...] = (*change.actions_of(FAMILY), *moving.ACTIONS)
