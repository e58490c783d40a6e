"""Host preparation: what HostPolicies ask of nodes, how far each is, and when it reboots."""

from laneway.web.page import Action
from laneway.web.pages.hosts import listing, policy, reboot

PAGES = (*listing.PAGES, *policy.PAGES, *reboot.PAGES)
ACTIONS: tuple[Action, ...] = (*policy.ACTIONS, *reboot.ACTIONS)
