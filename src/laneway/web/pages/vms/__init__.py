"""VMs: what they request and what they have, started and stopped, made, and given devices."""

from __future__ import annotations

from laneway.web.page import Action, Page
from laneway.web.pages.vms import detail, devices, listing, new, power

PAGES: tuple[Page, ...] = (listing.PAGE, new.PAGE, detail.PAGE, devices.PAGE, *power.PAGES)
ACTIONS: tuple[Action, ...] = (new.ACTION, devices.ACTION, *power.ACTIONS)
