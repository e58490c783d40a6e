"""GPUs: the list of all, a page for each with its picture, and the forms that change them."""

from __future__ import annotations

from laneway.web.page import Action, Page
from laneway.web.pages.gpus import bulk, detail, listing, modes, planning, withdrawing

# What a pattern with a name would match as well comes first.
_MODULES = (listing, bulk, detail, planning, modes, withdrawing)

PAGES: tuple[Page, ...] = tuple(page for module in _MODULES for page in module.PAGES)
ACTIONS: tuple[Action, ...] = tuple(action for module in _MODULES for action in module.ACTIONS)
