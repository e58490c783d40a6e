"""A call that failed, in the words of a real API server.

Its texts are those of Go's network library; what has no counterpart here reads as Python says it.
"""

from __future__ import annotations

import errno
import json
import os
import ssl

import aiohttp
import msgspec

SHOWN_LIMIT = 2048
"""Bytes of an answer that is no review, to show what it was."""

_ADVICE = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: (
        "the server was unable to return a response in the time allotted, but may still be "
        "processing the request"
    ),
}


class CallError(Exception):
    """The webhook could not be asked, or did not answer as it must; the text says why."""


class _Status(msgspec.Struct):
    kind: str
    message: str


def failure(why: str) -> CallError:
    return CallError(f"failed to call webhook: {why}")


def failed(url: str, why: Exception) -> CallError:
    """The call to `url` came to nothing."""
    return failure(f'Post "{url}": {_text(why)}')


def status_text(code: int, content_type: str, body: bytes) -> str:
    """What an answer that is not a success says."""
    try:
        status = msgspec.json.decode(body, type=_Status)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        pass
    else:
        if status.kind == "Status" and status.message:
            return status.message
    shown = "unknown"
    if content_type.startswith("text/"):
        shown = body[:SHOWN_LIMIT].decode(errors="replace").strip()
    if code in _ADVICE:
        return _ADVICE[code]
    if code == 403:
        return shown
    if code >= 500:
        quoted = json.dumps(shown, ensure_ascii=False)
        return f"an error on the server ({quoted}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


def _text(why: Exception) -> str:
    match why:
        case TimeoutError() if not isinstance(why, aiohttp.ClientError):
            return "context deadline exceeded"
        case aiohttp.ClientConnectorCertificateError():
            return f"tls: failed to verify certificate: {_certificate(why)}"
        case aiohttp.ClientConnectorDNSError():
            return f"dial tcp: lookup {why.host}: no such host"
        case aiohttp.ClientConnectorError():
            return f"dial tcp {_joined(why.host, why.port)}: connect: {_reason(why.os_error)}"
        case aiohttp.ServerDisconnectedError():
            return "EOF"
        case aiohttp.ClientPayloadError():
            return "unexpected EOF"
        case aiohttp.ClientOSError() if why.errno == errno.ECONNRESET:
            return "read: connection reset by peer"
    return str(why) or type(why).__name__


def _certificate(why: aiohttp.ClientConnectorCertificateError) -> str:
    error = why.certificate_error
    if not isinstance(error, ssl.SSLCertVerificationError):
        return str(error)
    match error.verify_message:
        case "certificate has expired" | "certificate is not yet valid":
            return "x509: certificate has expired or is not yet valid"
        case (
            "self-signed certificate"
            | "self-signed certificate in certificate chain"
            | "unable to get local issuer certificate"
            | "unable to verify the first certificate"
        ):
            return "x509: certificate signed by unknown authority"
        case text if "mismatch" in text:
            return f"x509: certificate is not valid for {why.host}"
        case text:
            return f"x509: {text}"


def _reason(error: OSError) -> str:
    number = error.errno
    return os.strerror(number).lower() if number else str(error)


def _joined(host: str, port: int | None) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
