"""The pages of the interface: a module for each entry of the menu, and one for any object."""

from laneway.web.page import Action, Page
from laneway.web.pages import (
    activity,
    gpus,
    history,
    hosts,
    mig,
    networks,
    nodes,
    objects,
    overview,
    pci,
    planner,
    pools,
    usb,
    vgpus,
    vms,
)
from laneway.web.visit import Site

_MODULES = (
    overview,
    gpus,
    vgpus,
    mig,
    pci,
    networks,
    usb,
    vms,
    pools,
    planner,
    nodes,
    hosts,
    activity,
    history,
    objects,
)

PAGES: tuple[Page, ...] = tuple(page for module in _MODULES for page in module.PAGES)
ACTIONS: tuple[Action, ...] = tuple(action for module in _MODULES for action in module.ACTIONS)


def keep(site: Site) -> None:
    """Make the rows of large tables, which takes seconds in a large cluster."""
    pci.listing.keep(site)
    vgpus.listing.keep(site)
    vms.rows.keep(site)
