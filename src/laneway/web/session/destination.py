"""Where a user goes after signing in: an address of this site, whatever the request says."""

from __future__ import annotations

import re
from urllib.parse import unquote

HOME = "/"
_LONGEST = 2048
_ADDRESS = re.compile(r"/[A-Za-z0-9\-._~!$&'()*+,;=:@/%]*(\?[A-Za-z0-9\-._~!$&'()*+,;=:@/?%]*)?")
_HIDDEN = re.compile(r"//|\\|[\x00-\x1f\x7f]")
"""What makes a browser, or a proxy that decodes, see another site or another header."""
_OURS = ("/sign-in", "/sign-out", "/session")


def destination(address: str) -> str:
    """The address if it is a page of this site, else the first page."""
    if len(address) > _LONGEST or not _ADDRESS.fullmatch(address):
        return HOME
    path = address.partition("?")[0]
    decoded = unquote(path)
    if any(_HIDDEN.search(text) for text in (path, decoded, unquote(decoded))):
        return HOME
    if path.startswith(_OURS) and path != DONE:
        return HOME
    return address


DONE = "/sign-in/done"
"""The page that ends a sign-in in a second tab."""
