"""What is wrong with where a webhook is said to be, in the words of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import SplitResult, urlsplit

from kapilite.names import subdomain
from kapilite.problems import Problem, invalid, required

_FORM = "; desired format: https://host[/path]"


def problems(at: str, config: dict[str, Any]) -> Iterator[Problem]:
    """What is wrong with the clientConfig whose field is `at`."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(at, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(f"{at}.url", url)
    else:
        yield from _service(f"{at}.service", service or {})


def _url(field: str, url: str) -> Iterator[Problem]:
    try:
        parts = _split(url)
    except ValueError as error:
        yield required(field, f"url must be a valid URL: {error}{_FORM}")
        return
    user, _, host = parts.netloc.rpartition("@")
    if parts.scheme != "https":
        yield invalid(field, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not host:
        yield invalid(field, host, f"host must be provided{_FORM}")
    if user:
        yield invalid(field, user, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(field, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(field, parts.query, "query parameters are not permitted in the URL")


def _split(url: str) -> SplitResult:
    if not url.isprintable() or " " in url:
        # Python drops some of these without a word.
        raise ValueError(f"parse {url!r}: invalid character in URL")
    parts = urlsplit(url)
    parts.port  # noqa: B018 - raises where it is no number
    return parts


def _service(at: str, service: dict[str, Any]) -> Iterator[Problem]:
    for field in ("name", "namespace"):
        if not service.get(field):
            yield required(f"{at}.{field}", f"service {field} is required")
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        yield invalid(
            f"{at}.port", port, "port is not valid: must be between 1 and 65535, inclusive"
        )
    yield from _path(f"{at}.path", service.get("path") or "/")


def _path(field: str, path: str) -> Iterator[Problem]:
    if path == "/":
        return
    if path == "//":
        yield invalid(field, path, "segment[0] may not be empty")
        return
    if not path.startswith("/"):
        yield invalid(field, path, "must start with a '/'")
    for index, segment in enumerate(path[1:].removesuffix("/").split("/")):
        if not segment:
            yield invalid(field, path, f"segment[{index}] may not be empty")
        else:
            for text in subdomain(segment):
                yield invalid(field, path, f"segment[{index}]: {text}")
