"""Names for the shell to complete: contexts, namespaces, nodes, GPUs, profiles and objects.

A completion never fails and never takes long: what cannot be asked within the time limit is left
out, and nothing is printed about it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from laneway.kube.client import Client

_SECONDS = 1.5
_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./:@=+%-]*")
"""What means itself in every shell: bash does not quote a completion, and Enter would run it."""

Names = Callable[["Client"], Coroutine[Any, Any, Iterable[str]]]
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def contexts(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The contexts of the kubeconfig."""
    try:
        from laneway.kube.config import contexts as known  # noqa: PLC0415 - slow to import

        return _starting(known(ctx.params.get("kubeconfig")), incomplete)
    except Exception:  # noqa: BLE001 - a shell cannot show why there is nothing to complete
        return []


def _live(names: Names) -> Complete:
    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        try:
            found = _asked(ctx, names)
        except Exception:  # noqa: BLE001 - as above
            return []
        return _starting(found, incomplete)

    return complete


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    """Those that go on from what is typed, without names that a shell would interpret."""
    begun = incomplete.lower()
    return sorted(
        {name for name in names if name.lower().startswith(begun) and _PLAIN.fullmatch(name)}
    )


def _asked(ctx: click.Context, names: Names) -> Iterable[str]:
    import asyncio  # noqa: PLC0415 - slow to import, as the next three
    import threading  # noqa: PLC0415 - as above

    from laneway.kube.client import Client  # noqa: PLC0415 - as above
    from laneway.kube.config import load  # noqa: PLC0415 - as above

    async def ask() -> Iterable[str]:
        config = load(ctx.params.get("kubeconfig"), ctx.params.get("context"))
        async with asyncio.timeout(_SECONDS), Client(config, connect_delays=()) as client:
            return await names(client)

    found: list[str] = []

    def work() -> None:
        with contextlib.suppress(Exception):  # a shell cannot show why nothing is found
            found.extend(asyncio.run(ask()))

    # Neither a resolver nor a credential plugin that hangs can be interrupted: it is left behind,
    # and `laneway.cli.main` does not wait for it either.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(_SECONDS)
    return [] if thread.is_alive() else found


async def _of_kind(client: Client, path: str) -> list[dict[str, Any]]:
    """The objects of a collection as they are stored."""
    import msgspec  # noqa: PLC0415 - slow to import

    items: list[dict[str, Any]] = msgspec.json.decode(await client.raw(path))["items"]
    return items


async def _named(client: Client, path: str) -> list[str]:
    return [one["metadata"]["name"] for one in await _of_kind(client, path)]


_GROUP = "/apis/devices.harvesterhci.io/v1beta1"
_KINDS = (
    "pcidevice",
    "pcideviceclaim",
    "sriovgpudevice",
    "vgpudevice",
    "vgpulayout",
    "migconfiguration",
    "sriovnetworkdevice",
    "usbdevice",
    "usbdeviceclaim",
    "vm",
)


async def _addresses(client: Client, path: str, field: str) -> list[str]:
    """Devices of a collection as `NODE/ADDRESS`, without the usual domain."""
    found = []
    for one in await _of_kind(client, path):
        place = {**one.get("spec", {}), **one.get("status", {})}
        if place.get("nodeName") and place.get(field):
            found.append(f"{place['nodeName']}/{place[field].removeprefix('0000:')}")
    return found


async def _gpu_titles(client: Client) -> list[str]:
    return await _addresses(client, f"{_GROUP}/sriovgpudevices", "address")


async def _device_titles(client: Client) -> list[str]:
    return await _addresses(client, f"{_GROUP}/pcidevices", "address")


async def _claim_titles(client: Client) -> list[str]:
    return await _addresses(client, f"{_GROUP}/pcideviceclaims", "address")


def profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The profiles that the named GPU offers now, or any GPU of the cluster where none is named.

    `none` with a GPU: the vGPUs that it is to have.
    """
    title = ctx.params.get("which")

    async def names(client: Client) -> list[str]:
        found = set()
        for gpu in await _of_kind(client, f"{_GROUP}/sriovgpudevices"):
            if not title or title in _titles(gpu):
                found |= set(gpu.get("status", {}).get("fits", {}))
        return ["none"] * bool(title) + [name.rpartition(" ")[2] for name in found]

    return _live(names)(ctx, param, incomplete)


def _titles(gpu: dict[str, Any]) -> tuple[str, ...]:
    """How commands name a GPU."""
    node, address = gpu["spec"]["nodeName"], gpu["spec"]["address"]
    short = address.removeprefix("0000:")
    return f"{node}/{address}", f"{node}/{short}", gpu["metadata"]["name"]


def hosts(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What can be simulated: a model, or else a path for the shell to complete."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - needed here only

    from laneway.sim.models import ABOUT  # noqa: PLC0415 - slow to import

    models = [
        CompletionItem(name, help=about)
        for name, about in ABOUT.items()
        if name.startswith(incomplete)
    ]
    return models or [CompletionItem(incomplete, type="file")]


nodes = _live(lambda client: _named(client, "/api/v1/nodes"))
namespaces = _live(lambda client: _named(client, "/api/v1/namespaces"))
gpus = _live(_gpu_titles)
devices = _live(_device_titles)
claims = _live(_claim_titles)


def objects(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """`KIND/` first, then the objects of that kind; and `NODE/ADDRESS`."""
    kind, slash, _ = incomplete.partition("/")
    if not slash:
        return [
            *_starting((f"{one}/" for one in _KINDS), incomplete),
            *devices(ctx, param, incomplete),
        ]
    if kind.lower() not in _KINDS:
        return devices(ctx, param, incomplete)
    path = f"{_GROUP}/{kind.lower()}s"
    if kind.lower() == "vm":
        path = "/apis/kubevirt.io/v1/virtualmachines"

    async def names(client: Client) -> list[str]:
        return [f"{kind}/{name}" for name in await _named(client, path)]

    return _live(names)(ctx, param, incomplete)


@click.command(
    "completion",
    epilog="""\b
Examples:
    source <(laneway completion bash)
    laneway completion zsh > "${fpath[1]}/_laneway"
    laneway completion fish > ~/.config/fish/completions/laneway.fish
""",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    The script completes commands, options, and the names of nodes, GPUs, profiles and objects of
    the cluster. While the cluster cannot be reached, it completes commands and options only.
    """
    from laneway.cli.completion_scripts import SCRIPTS  # noqa: PLC0415 - needed here only

    click.echo(SCRIPTS[shell], nl=False)
