"""vGPU devices."""

from laneway.web.pages.vgpus.listing import ACTIONS, PAGES

__all__ = ["ACTIONS", "PAGES"]
