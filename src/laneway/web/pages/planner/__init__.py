"""The planner: what would fit if the cluster, or a fleet from a file, were changed."""

from laneway.web.pages.planner import page, upload

PAGES = page.PAGES
ACTIONS = upload.ACTIONS
