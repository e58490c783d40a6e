"""To be written."""

from __future__ import annotations

from laneway.web.page import Action, Page

PAGES: tuple[Page, ...] = ()
ACTIONS: tuple[Action, ...] = ()
