"""The bytes on the sockets, written out from the protocols' definitions.

What is here makes and takes HTTP/2 by itself and knows nothing of the generated messages, so that
a wrong field number, or one that both sides get wrong alike, is seen.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h2.config
import h2.connection
import h2.events
import pytest
from h2.settings import SettingCodes

from laneway.core.device_plugin.offer import Offer, Owner
from laneway.kubelet.plugins import Plugins
from laneway.kubelet.pod_resources import PodResources
from laneway.kubelet.sockets import endpoint

GPU = "nvidia.com/GA100_A100"
SOCKET = "kubevirt-nvidia.com-GA100_A100.sock"
DEVICES = "/var/lib/kubelet/device-plugins/"

Gpus = Callable[..., list[Offer]]
Until = Callable[..., Awaitable[None]]


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def field(number: int, content: bytes) -> bytes:
    """A field that holds a text or a message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def framed(message: bytes) -> bytes:
    """A gRPC message: not compressed, its length, itself."""
    return b"\0" + len(message).to_bytes(4) + message


class Answer(NamedTuple):
    headers: dict[str, str]
    """With the trailers."""
    body: bytes


class Wire:
    """One side of an HTTP/2 connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, client: bool
    ) -> None:
        # What older kubelets say is not valid, so nothing may be checked before it is sent.
        config = h2.config.H2Configuration(
            client_side=client,
            header_encoding="utf-8",
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self.h2 = h2.connection.H2Connection(config)
        self._reader, self._writer = reader, writer
        self.h2.initiate_connection()

    def flush(self) -> None:
        self._writer.write(self.h2.data_to_send())

    async def events(self) -> AsyncIterator[h2.events.Event]:
        self.flush()
        while data := await self._reader.read(65536):
            for event in self.h2.receive_data(data):
                if isinstance(event, h2.events.DataReceived):
                    self.h2.acknowledge_received_data(event.flow_controlled_length, 1)
                yield event
            self.flush()

    async def call(self, path: str, body: bytes, authority: str, until: int = 1 << 30) -> Answer:
        """Send a request as the one of this connection; wait for its end or so much of a body."""
        names = {":method": "POST", ":scheme": "http", ":path": path, ":authority": authority}
        names |= {
            "content-type": "application/grpc",
            "te": "trailers",
            "user-agent": "grpc-go/1.49",
        }
        self.h2.send_headers(1, [*names.items()])
        self.h2.send_data(1, body, end_stream=True)
        headers: dict[str, str] = {}
        content = b""
        async for event in self.events():
            match event:
                case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                    headers.update(event.headers or ())
                case h2.events.DataReceived():
                    content += event.data or b""
            if len(content) >= until or isinstance(event, h2.events.StreamEnded):
                return Answer(headers, content)
        raise AssertionError(f"the connection ended: {headers} {content!r}")

    async def serve(self, answer: bytes) -> tuple[dict[str, str], bytes]:
        """Answer the one request with this; what was asked."""
        headers: dict[str, str] = {}
        content = b""
        async for event in self.events():
            match event:
                case h2.events.RequestReceived():
                    headers.update(event.headers or ())
                case h2.events.DataReceived():
                    content += event.data or b""
                case h2.events.StreamEnded():
                    kind = [(":status", "200"), ("content-type", "application/grpc")]
                    self.h2.send_headers(1, kind)
                    self.h2.send_data(1, answer)
                    self.h2.send_headers(1, [("grpc-status", "0")], end_stream=True)
                    self.flush()
                    return headers, content
        raise AssertionError("the connection ended")


@pytest.fixture
async def dial(
    plugins: Plugins, gpus: Gpus, until: Until, at_socket: Any
) -> AsyncIterator[Callable[[], Awaitable[Wire]]]:
    """Connections to the plugin of two GPUs."""
    plugins.offer([*gpus(1, numa_node=1), *gpus(2, unhealthy="gone", numa_node=0), *gpus(3)])
    await until(lambda: "kubelet.sock does not exist" in plugins.state(GPU).problem, plugins)
    async with AsyncExitStack() as stack:

        async def connect() -> Wire:
            with at_socket(GPU) as path:
                reader, writer = await asyncio.open_unix_connection(path)
            stack.push_async_callback(writer.wait_closed)
            stack.callback(writer.close)
            return Wire(reader, writer, client=True)

        yield connect


@asynccontextmanager
async def kubelet_at(folder: Path, answer: bytes) -> AsyncIterator[asyncio.Queue[Any]]:
    """Serves one file of the kubelet; what it was asked."""
    asked: asyncio.Queue[Any] = asyncio.Queue()
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.put_nowait(await Wire(reader, writer, client=False).serve(answer))
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    opened = os.open(folder, os.O_PATH)
    try:
        server = await asyncio.start_unix_server(serve, f"/proc/self/fd/{opened}/kubelet.sock")
    finally:
        os.close(opened)
    async with server:
        yield asked
        await asyncio.wait_for(left.wait(), 20)


REGISTRATION = (
    field(1, b"v1beta1")
    + field(2, SOCKET.encode())
    + field(3, GPU.encode())
    + field(4, b"\x10\x01")
)
LIST = (
    field(1, field(1, b"0000:01:00.0") + field(2, b"Healthy") + field(3, field(1, b"\x08\x01")))
    + field(1, field(1, b"0000:02:00.0") + field(2, b"Unhealthy") + field(3, field(1, b"")))
    + field(1, field(1, b"0000:03:00.0") + field(2, b"Healthy"))
)
ALLOCATE = field(1, field(1, b"0000:03:00.0"))
ALLOCATED = field(
    1,
    field(1, field(1, b"PCI_RESOURCE_NVIDIA_COM_GA100_A100") + field(2, b"0000:03:00.0"))
    + field(3, field(1, b"/dev/vfio/3") + field(2, b"/dev/vfio/3") + field(3, b"mrw"))
    + field(3, field(1, b"/dev/vfio/vfio") + field(2, b"/dev/vfio/vfio") + field(3, b"mrw")),
)


async def test_the_plugin_registers_as_the_protocol_says(
    folder: Path, plugins: Plugins, gpus: Gpus
) -> None:
    assert endpoint(GPU) == SOCKET
    async with kubelet_at(folder / "device-plugins", framed(b"")) as asked:
        plugins.offer(gpus(1))
        headers, body = await asyncio.wait_for(asked.get(), 20)
    assert headers[":path"] == "/v1beta1.Registration/Register"
    assert body == framed(REGISTRATION)


# From 1.26 on kubelets say `localhost`. Before, Go's gRPC made the authority of the socket's path.
AUTHORITIES = [
    "localhost",
    DEVICES + SOCKET,
    "%2Fvar%2Flib%2Fkubelet%2Fdevice-plugins%2F" + SOCKET,
    f"unix://{DEVICES}{SOCKET}",
    f"unix:{DEVICES}{SOCKET}",
    "",
    "[::1]:x@ %zz",
]


@pytest.mark.parametrize("authority", AUTHORITIES)
async def test_kubelets_are_answered_whatever_they_call_the_plugin(
    authority: str, dial: Callable[[], Awaitable[Wire]]
) -> None:
    answer = await (await dial()).call(
        "/v1beta1.DevicePlugin/Allocate", framed(ALLOCATE), authority
    )
    assert answer.headers["grpc-status"] == "0"
    assert answer.body == framed(ALLOCATED)
    listed = await (await dial()).call(
        "/v1beta1.DevicePlugin/ListAndWatch", framed(b""), authority, until=len(framed(LIST))
    )
    assert listed.body == framed(LIST)


@pytest.mark.parametrize(
    ("call", "request_", "answer"),
    [
        ("GetDevicePluginOptions", b"", b"\x10\x01"),
        ("PreStartContainer", field(1, b"0000:01:00.0"), b""),
        (
            "GetPreferredAllocation",
            field(1, field(1, b"0000:01:00.0") + field(1, b"0000:03:00.0") + b"\x18\x01"),
            field(1, field(1, b"0000:01:00.0")),
        ),
        (
            "GetPreferredAllocation",
            field(1, field(1, b"0000:01:00.0") + field(1, b"0000:03:00.0")
                  + field(2, b"0000:03:00.0") + b"\x18\x01"),
            field(1, field(1, b"0000:03:00.0")),
        ),
        ("Allocate", ALLOCATE + field(99, b"of a later version"), ALLOCATED),
        ("Allocate", b"", b""),
    ],
)  # fmt: skip
async def test_calls_are_answered_as_the_protocol_says(
    call: str, request_: bytes, answer: bytes, dial: Callable[[], Awaitable[Wire]]
) -> None:
    result = await (await dial()).call(
        f"/v1beta1.DevicePlugin/{call}", framed(request_), "localhost"
    )
    assert result.headers["grpc-status"] == "0"
    assert result.body == framed(answer)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\0\0\0", id="half a head"),
        pytest.param(framed(ALLOCATE)[:-1], id="less than it says"),
        pytest.param(b"\1" + framed(ALLOCATE)[1:], id="said to be compressed"),
        pytest.param(framed(b"\xff\xff\xff\xff"), id="no message"),
        pytest.param(framed(field(1, field(1, b"\xff"))), id="no text"),
    ],
)
async def test_a_request_that_is_none_is_refused(
    body: bytes, dial: Callable[[], Awaitable[Wire]]
) -> None:
    wire = await dial()
    answer = await wire.call("/v1beta1.DevicePlugin/Allocate", body, "localhost")
    assert answer.headers["grpc-status"] == "3"
    assert "request" in answer.headers["grpc-message"]


async def test_a_kubelet_that_reads_slowly_still_learns_that_nothing_is_left(
    plugins: Plugins, dial: Callable[[], Awaitable[Wire]]
) -> None:
    wire = await dial()
    wire.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
    names = {":method": "POST", ":scheme": "http", ":path": "/v1beta1.DevicePlugin/ListAndWatch"}
    names |= {":authority": "", "content-type": "application/grpc", "te": "trailers"}
    wire.h2.send_headers(1, [*names.items()])
    wire.h2.send_data(1, framed(b""), end_stream=True)
    body = b""
    async for event in wire.events():
        match event:
            case h2.events.ResponseReceived():  # the list itself does not get through
                plugins.offer([])
                sent = asyncio.create_task(plugins.sent())
                assert not (await asyncio.wait({sent}, timeout=0.1))[0]
                wire.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 65535})
            case h2.events.DataReceived():
                body += event.data or b""
    await sent
    assert body == framed(LIST) + framed(b"")


async def test_the_kubelets_pods_are_read_and_what_is_unknown_is_skipped(folder: Path) -> None:
    topology = field(3, field(1, b"\x08\x01"))
    devices = field(1, GPU.encode()) + field(2, b"0000:01:00.0") + field(2, b"0000:03:00.0")
    compute = (
        field(1, b"compute")
        + field(2, devices + topology)
        + field(3, b"\x00\x01\x02")  # CPUs
        + field(4, field(1, b"memory") + b"\x10\x80\x20")
        + field(5, field(2, b"claim"))
    )
    sidecar = field(1, b"sidecar") + field(2, field(1, b"example.com/x") + field(2, b"x"))
    pod = field(1, b"virt-launcher-vm") + field(2, b"default")
    message = field(1, pod + field(3, compute) + field(3, sidecar))
    async with kubelet_at(folder / "pod-resources", framed(message)) as asked:
        owners = await PodResources(str(folder)).owners()
        headers, body = await asked.get()
    assert (headers[":path"], body) == ("/v1.PodResourcesLister/List", framed(b""))
    launcher = Owner(namespace="default", pod="virt-launcher-vm", container="compute")
    assert owners == {
        (GPU, "0000:01:00.0"): launcher,
        (GPU, "0000:03:00.0"): launcher,
        ("example.com/x", "x"): Owner(
            namespace="default", pod="virt-launcher-vm", container="sidecar"
        ),
    }
