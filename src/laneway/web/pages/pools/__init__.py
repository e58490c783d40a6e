"""Machine pools of Rancher's guest clusters: whether they fit, and which devices they have."""

from laneway.web.pages.pools import change, detail, listing, remove

PAGES = (*listing.PAGES, *detail.PAGES, *change.PAGES, *remove.PAGES)
ACTIONS = (*listing.ACTIONS, *change.ACTIONS, *remove.ACTIONS)
