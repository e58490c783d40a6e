"""Logging in: who is talked to, with what, and what is said when that fails."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable

import pytest

from laneway.vsphere.port import (
    Credentials,
    LoginRefusedError,
    UnreachableVCenterError,
    VCenterError,
)
from laneway.vsphere.vcenter import Connection, connect
from support.vcenter import Simulator

USER = ("user", "pass")


async def refusal(server: str, credentials: Credentials) -> VCenterError:
    with pytest.raises(VCenterError) as refused:
        await connect(server, credentials)
    return refused.value


def plain(thumbprint: str) -> str:
    return thumbprint.replace(":", "").lower()


async def test_either_thumbprint_with_colons_or_none_lets_in(vcenter: Simulator) -> None:
    both = (vcenter.thumbprint, vcenter.thumbprint_sha256)
    for thumbprint in (*both, *map(plain, both)):
        async with await connect(vcenter.server, Credentials(*USER, thumbprint)) as connection:
            about = await connection.about()
        assert about.api_version == "8.0.3.0"
        assert about.instance_uuid


async def test_a_wrong_thumbprint_is_found_before_anything_is_sent(proxy) -> None:
    refused = await refusal(proxy.server, Credentials(*USER, thumbprint="00" * 32))
    assert isinstance(refused, LoginRefusedError)
    assert proxy.thumbprint.upper()[:2] + ":" in str(refused)
    assert "thumbprint" in str(refused)
    assert proxy.asked == []


async def test_a_certificate_of_an_unknown_authority_is_not_trusted(proxy) -> None:
    refused = await refusal(proxy.server, Credentials(*USER))
    assert isinstance(refused, LoginRefusedError)
    assert "certificate" in str(refused)
    assert proxy.asked == []


async def test_a_certificate_for_another_name_is_not_trusted(proxy) -> None:
    refused = await refusal(proxy.server, Credentials(*USER, ca=proxy.pem))
    assert isinstance(refused, LoginRefusedError)
    assert "127.0.0.1" in str(refused)
    assert proxy.asked == []


@pytest.mark.parametrize(
    "wrong",
    [
        Credentials(*USER, thumbprint="12:34"),
        Credentials(*USER, thumbprint="zz" * 20),
        Credentials(*USER, ca="no certificate"),
        Credentials(*USER, ca="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
    ],
)
async def test_what_is_no_trust_at_all_is_refused(vcenter: Simulator, wrong: Credentials) -> None:
    assert isinstance(await refusal(vcenter.server, wrong), LoginRefusedError)


@pytest.mark.parametrize("server", ["", "a b", "vc/../x", "vc:0", "vc:99999", "https://vc", "[::1"])
async def test_what_is_no_server_is_refused(server: str) -> None:
    assert isinstance(await refusal(server, Credentials(*USER)), LoginRefusedError)


async def test_a_refused_user_is_not_tried_again(proxy) -> None:
    first = await refusal(proxy.server, Credentials("", "secret-word", proxy.thumbprint))
    assert isinstance(first, LoginRefusedError)
    assert "password" in str(first)
    assert "secret-word" not in str(first)
    assert proxy.asked.count("Login") == 1


async def test_a_password_that_is_refused_later_is_tried_only_once(
    proxy, log_into: Callable[..., Awaitable[Connection]]
) -> None:
    connection = await log_into(proxy)
    proxy.spoil = refusing
    for _ in range(3):
        with pytest.raises(LoginRefusedError):
            await connection.look(["vm-1"])
    assert proxy.asked.count("Login") == 2


def fault(kind: str, text: str) -> bytes:
    return (
        '<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv='
        '"http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body><soapenv:Fault>'
        f"<faultcode>ServerFaultCode</faultcode><faultstring>{text}</faultstring>"
        f'<detail><{kind}Fault xmlns="urn:vim25" xmlns:xsi='
        f'"http://www.w3.org/2001/XMLSchema-instance" xsi:type="{kind}"/></detail>'
        "</soapenv:Fault></soapenv:Body></soapenv:Envelope>"
    ).encode()


def refusing(method: str, answer: bytes) -> bytes:
    if method == "Login":
        return fault("InvalidLogin", "Cannot complete login")
    if method == "RetrievePropertiesEx":
        return fault("NotAuthenticated", "The session is not authenticated.")
    return answer


async def test_closing_logs_out_only_a_session_that_was_open(
    vcenter: Simulator, log_into: Callable[..., Awaitable[Connection]]
) -> None:
    await (await log_into(vcenter)).close()
    assert (vcenter.requests("Login"), vcenter.requests("Logout")) == (1, 1)
    vcenter.drop("Login", times=-1)
    with pytest.raises(UnreachableVCenterError):
        await log_into(vcenter)
    assert (vcenter.requests("Login"), vcenter.requests("Logout")) == (2, 1)


async def test_credentials_do_not_show() -> None:
    assert "secret" not in repr(Credentials("user", "secret"))


async def test_no_listener() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{taken.getsockname()[1]}"
        assert isinstance(await refusal(server, Credentials(*USER)), UnreachableVCenterError)


@pytest.mark.parametrize(
    "said",
    [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"\x15\x03\x01\x00\x02\x02\x28"],
)
async def test_a_server_that_speaks_no_tls(said: bytes) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        refused = await refusal(f"127.0.0.1:{port}", Credentials(*USER, thumbprint="00" * 20))
    assert isinstance(refused, UnreachableVCenterError)


async def test_an_old_vcenter_is_recognised(start_vcenter: Callable[..., Simulator]) -> None:
    old = start_vcenter(api_version="6.7.3")
    refused = await refusal(old.server, Credentials(*USER, old.thumbprint))
    assert isinstance(refused, LoginRefusedError)
    assert re.search(r"7\.0", str(refused))


async def test_a_name_resolves_no_further_than_the_certificate(vcenter: Simulator) -> None:
    pem = ssl.get_server_certificate((vcenter.host, vcenter.port))
    refused = await refusal(f"localhost:{vcenter.port}", Credentials(*USER, ca=pem))
    assert isinstance(refused, LoginRefusedError)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"<html><body>It works!</body></html>",
        b'{"error": "not found"}',
        b"\x00\xff",
        b'<?xml version="1.0"?><RetrieveServiceContentResponse><returnval/>',
        (
            b'<Envelope><RetrieveServiceContentResponse xmlns="urn:vim25"><returnval><about>'
            b"<apiType>VirtualCenter</apiType><apiVersion>\xc2\xb2.x</apiVersion></about></returnval>"
            b"</RetrieveServiceContentResponse></Envelope>"
        ),
    ],
)
async def test_a_server_that_is_no_vcenter(proxy, said: bytes) -> None:
    proxy.spoil = lambda method, answer: said
    refused = await refusal(proxy.server, Credentials(*USER, proxy.thumbprint))
    assert proxy.server in str(refused)
    assert "Login" not in proxy.asked
