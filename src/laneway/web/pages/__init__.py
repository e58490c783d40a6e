"""The pages of the interface: a module for each entry of the menu."""

from laneway.web.page import Action, Page
from laneway.web.pages import vgpus

_MODULES = (vgpus,)

PAGES: tuple[Page, ...] = tuple(page for module in _MODULES for page in module.PAGES)
ACTIONS: tuple[Action, ...] = tuple(action for module in _MODULES for action in module.ACTIONS)
