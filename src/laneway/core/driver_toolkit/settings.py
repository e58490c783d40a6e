"""Which driver a node is to have, where it is, and how it is reached.

The package is run as root on every node with a GPU, and may come over HTTP, a proxy or a mirror, so
its SHA-256 is mandatory: that, and not the place, decides what is run. Everything else is judged
here before anything is downloaded or written. A location may carry a signature in its query, and a
proxy a password, so neither is ever shown whole.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

import msgspec

SCHEMES = ("https", "http")
_MAX = 2048
_SHA256 = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"[0-9]{3,4}(\.[0-9]{1,4}){1,2}")
_PLAIN = re.compile(r"[!-~]*")
"""What a URL consists of: no spaces, no control characters."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of the toolkit."""

    location: str
    """A URL, or the absolute path of a file in a folder that is mounted."""
    version: str
    """As the driver reports it: 570.133.20."""
    sha256: str
    proxy: str = ""
    ca_file: str = ""
    """Authorities of the location's server (PEM), in addition to those of the image."""


def is_url(location: str) -> bool:
    """Whether the package comes over the network."""
    return not location.startswith("/")


def problems(settings: Settings) -> tuple[str, ...]:
    """Why these settings cannot be followed; empty when they can."""
    return tuple(
        text
        for text in (
            _location(settings.location),
            _version(settings.version),
            _sha256(settings.sha256),
            _proxy(settings.proxy, settings.location),
            _ca_file(settings.ca_file),
        )
        if text
    )


def shown(location: str) -> str:
    """A location without its query and without a user, for logs and messages."""
    if not is_url(location):
        return location
    try:
        parts = urlsplit(location)
    except ValueError:
        return "the location"
    return f"{parts.scheme}://{_authority(parts)}{parts.path}"


def _authority(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _location(text: str) -> str:
    if not text:
        return "the driver's location is empty; set a URL, or the absolute path of a file"
    if len(text) > _MAX or not text.isprintable():
        return "the driver's location is too long, or has characters that cannot be printed"
    if not is_url(text):
        if ".." in text.split("/") or text.endswith("/"):
            return f"the driver's location {text[:80]!r} must be the path of a file, without '..'"
        return ""
    problem = _url(text)
    if problem:
        return f"the driver's location {shown(text)[:80]!r} {problem}"
    if "@" in urlsplit(text).netloc:
        return "the driver's location must not have a user or a password"
    return ""


def _url(text: str) -> str:
    """What is wrong with a URL; empty if nothing."""
    try:
        parts = urlsplit(text)
        usable = bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return "is no URL"
    if parts.scheme not in SCHEMES:
        return "must begin with https://, http:// or /"
    if not usable or not _PLAIN.fullmatch(text):
        return "is no URL"
    return ""


def _version(text: str) -> str:
    if _VERSION.fullmatch(text):
        return ""
    return f"the driver's version {text[:40]!r} must be like 570.133.20, as in the package's name"


def _sha256(text: str) -> str:
    if _SHA256.fullmatch(text):
        return ""
    if not text:
        return "the package's SHA-256 is missing; compute it: sha256sum FILE"
    return (
        f"the package's SHA-256 {text[:80]!r} must be 64 hexadecimal digits in lower case; compute "
        "it: sha256sum FILE"
    )


def _proxy(text: str, location: str) -> str:
    if not text:
        return ""
    if len(text) > _MAX or _url(text) or not text.startswith("http://"):
        return "the proxy must be a URL that begins with http://"
    if location.startswith("/"):
        return "a proxy is of no use for a location that is a path; leave it out"
    return ""


def _ca_file(text: str) -> str:
    if not text or (text.startswith("/") and text.isprintable()):
        return ""
    return f"the file of authorities {text[:80]!r} must be an absolute path"
