"""vGPU devices: the table of all, a page for each, and the form that enables and disables them."""

from __future__ import annotations

from laneway.web.page import Action, Page
from laneway.web.pages.vgpus import changing, detail, listing

PAGES: tuple[Page, ...] = (*listing.PAGES, *changing.PAGES, *detail.PAGES)
ACTIONS: tuple[Action, ...] = changing.ACTIONS
