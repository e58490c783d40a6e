"""What a webhook that does not know its cluster says, and what a whole process does in its life."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from kapilite.credentials.pki import ensure
from support.processes import Laneway
from support.reviewing import WebhookInThread, claim, review, well_formed

REVIEW = review("pcideviceclaims", "DELETE", None, claim())


def test_without_its_caches_it_gives_no_verdict(webhook: WebhookInThread) -> None:
    webhook.caches.missing.append("claims")
    try:
        status, body = webhook.send(msgspec.json.encode(REVIEW))
    finally:
        webhook.caches.missing.clear()
    assert status == 503
    response = well_formed(body, "7")
    assert not response["allowed"]
    assert "claims" in response["status"]["message"]
    labels = {"webhook": "validation", "kind": "other", "operation": "other"}
    name = "laneway_admission_reviews_total"
    assert webhook.counted(name, **labels, outcome="not ready") == 1


def _readiness(port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


async def test_a_process_waits_for_what_it_needs_and_then_answers(
    cluster: Any, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    port, health = free_port(), free_port()
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    kubeconfig = str(tmp_path / "kubeconfig")
    arguments = ("--kubeconfig", kubeconfig, "--tls-cert-file", str(cert), "--tls-key-file")
    addresses = (f"--address=127.0.0.1:{port}", f"--health-address=127.0.0.1:{health}")
    process = Laneway("webhook", *arguments, str(key), *addresses)
    try:
        await _in_thread(process.until, "waiting for a certificate")
        code, words = await _in_thread(_readiness, health)
        assert code == 503
        assert "certificate" in words
        pki = ensure(str(tmp_path / "pki"))
        shutil.copy(pki.server_key, key)
        shutil.copy(pki.server_cert, cert)
        await _in_thread(process.until, "the webhook knows its cluster")
        assert (await _in_thread(_readiness, health))[0] == 200
        answer = await _in_thread(_ask, port, pki.ca_pem)
        assert well_formed(answer, "7")["allowed"]
    finally:
        status = await _in_thread(process.end)
    assert status == 0
    assert "PRIVATE" not in process.said


def _ask(port: int, ca: bytes) -> bytes:
    request = urllib.request.Request(
        f"https://127.0.0.1:{port}/v1/webhook/validation?timeout=10s",
        json.dumps(REVIEW).encode(),
        {"Content-Type": "application/json"},
    )
    trust = ssl.create_default_context(cadata=ca.decode())
    with urllib.request.urlopen(request, timeout=30, context=trust) as answer:
        body: bytes = answer.read()
        return body


async def _in_thread(function: Any, *args: Any) -> Any:
    return await asyncio.to_thread(function, *args)
