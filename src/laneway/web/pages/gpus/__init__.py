"""GPUs: the list of all, a page for each with its picture, and the forms that change them."""

from __future__ import annotations

from laneway.web.page import Action, Page
from laneway.web.pages.gpus import detail, listing, planning

PAGES: tuple[Page, ...] = (*listing.PAGES, *detail.PAGES, *planning.PAGES)
ACTIONS: tuple[Action, ...] = (*detail.ACTIONS, *planning.ACTIONS)
