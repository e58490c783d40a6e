"""Icons of states: each has a shape of its own, so that colour is never the only sign."""

from __future__ import annotations

from enum import StrEnum

from markupsafe import Markup

from laneway.web.pictures.marks import clean


class Icon(StrEnum):
    """How something is."""

    OK = "ok"
    WORKING = "working"
    WARNING = "warning"
    ERROR = "error"
    OFF = "off"
    UNKNOWN = "unknown"


_DISC = "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Z"
_RING = f"{_DISC}M8 2.6a5.4 5.4 0 1 1 0 10.8A5.4 5.4 0 0 1 8 2.6Z"
_SHAPES = {
    Icon.OK: f"{_DISC}M12.4 6 7.2 11.3 3.9 8.2 5 7l2.2 2 4.1-4.1Z",
    Icon.WORKING: "M8 1a7 7 0 1 0 7 7h-1.8A5.2 5.2 0 1 1 8 2.8Z"
    "M7.2 4.4v4.2l3 1.8.8-1.3-2.2-1.3V4.4Z",
    Icon.WARNING: "M8 .9 15.6 14.6H.4ZM7.1 5.6l.3 4.4h1.2l.3-4.4ZM7.1 11v1.8h1.8V11Z",
    Icon.ERROR: "M5 .8h6L15.2 5v6L11 15.2H5L.8 11V5ZM5.7 4.5 4.5 5.7 6.8 8 4.5 10.3l1.2 1.2L8 9.2"
    "l2.3 2.3 1.2-1.2L9.2 8l2.3-2.3-1.2-1.2L8 6.8Z",
    Icon.OFF: f"{_RING}M4.6 7.2h6.8v1.6H4.6Z",
    Icon.UNKNOWN: f"{_RING}M5.6 6.3a2.4 2.4 0 1 1 3.2 2.3v1.1H7.2V7.5h.8a.9.9 0 1 0-.9-1.2Z"
    "M7.2 10.6h1.6v1.6H7.2Z",
}


def icon(kind: Icon, text: str = "") -> Markup:
    """An icon. `text` is what it means where no text next to it says so."""
    named = Markup('role="img" aria-label="{}"').format(clean(text)) if text else None
    return Markup(
        '<svg class="pic-icon pic-icon-{}" viewBox="0 0 16 16" width="16" height="16"'
        ' focusable="false" {}><path fill-rule="evenodd" d="{}"/></svg>'
    ).format(kind.value, named or Markup('aria-hidden="true"'), _SHAPES[kind])
