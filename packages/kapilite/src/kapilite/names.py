"""What names must look like, in Kubernetes' words.

Each function gives what keeps a text from being such a name, in the order in which a real API
server says it; nothing is wrong with an empty answer.
"""

from __future__ import annotations

import re

_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL = re.compile(_PART)
_LABEL_1035 = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_PART}(\.{_PART})*")
_QUALIFIED = re.compile("([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_KEY_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def label(text: str) -> list[str]:
    """One part of a DNS name."""
    return [*_too_long(text, 63), *([] if _LABEL.fullmatch(text) else [_LABEL_TEXT])]


def label_1035(text: str) -> list[str]:
    """One part of a DNS name that begins with a letter."""
    return [*_too_long(text, 63), *([] if is_label_1035(text) else [LABEL_1035_TEXT])]


def is_label_1035(text: str) -> bool:
    """Whether it has the form; its length is another matter."""
    return _LABEL_1035.fullmatch(text) is not None


def subdomain(text: str) -> list[str]:
    """A DNS name in lower case, as the names of most things are."""
    return [*_too_long(text, 253), *([] if _SUBDOMAIN.fullmatch(text) else [SUBDOMAIN_TEXT])]


def segment(text: str) -> list[str]:
    """A segment of a path; colons and capitals are welcome."""
    found = [f"may not be '{text}'"] if text in (".", "..") else []
    return found + [f"may not contain '{char}'" for char in "/%" if char in text]


def qualified_name(text: str) -> list[str]:
    """A name such as the key of a label, `example.com/slot`."""
    if text.count("/") > 1:
        example = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_KEY_TEXT}{example}"]
    prefix, slash, name = text.rpartition("/")
    found = []
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    elif slash:
        found += [*_too_many_bytes(prefix, 253), *_not_matching(_SUBDOMAIN, prefix, SUBDOMAIN_TEXT)]
        found = [f"prefix part {one}" for one in found]
    parts = ["must be non-empty"] if not name else _too_many_bytes(name, 63)
    parts += _not_matching(_QUALIFIED, name, _KEY_TEXT)
    return found + [f"name part {one}" for one in parts]


def label_value(text: str) -> list[str]:
    """The value of a label."""
    found = _not_matching(_QUALIFIED, text, _VALUE_TEXT) if text else []
    return [*_too_many_bytes(text, 63), *found]


def _not_matching(form: re.Pattern[str], text: str, problem: str) -> list[str]:
    return [] if form.fullmatch(text) else [problem]


def _too_long(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} characters"] if len(text) > limit else []


def _too_many_bytes(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []
