"""MIG: the GPUs that can be divided into GPU instances, a page for each, and the plan of others."""

from __future__ import annotations

from laneway.web.page import Action, Page
from laneway.web.pages.mig import changing, detail, listing

PAGES: tuple[Page, ...] = (*listing.PAGES, *detail.PAGES, *changing.PAGES)
ACTIONS: tuple[Action, ...] = changing.ACTIONS
