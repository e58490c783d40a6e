"""USB devices from sysfs, root hubs left out: those belong to their controller."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.inventory import DeviceError, UsbDevice
from laneway.host.attributes import Attributes, describe, hex_id, listing
from laneway.host.paths import functions_on, is_usb_port, real_path
from laneway.host.port import Host

DEVICES = "/sys/bus/usb/devices"


def read_usb(host: Host, errors: list[DeviceError]) -> list[UsbDevice]:
    """Every USB device, sorted by port."""
    # Interfaces (`3-1:1.0`) and root hubs (`usb3`) stand in the same directory.
    ports = [name for name in listing(host, DEVICES, errors) if is_usb_port(name)]
    devices = (_read_device(host, port, errors) for port in ports)
    return [device for device in devices if device is not None]


def read_owners(host: Host, devices: Iterable[UsbDevice]) -> dict[str, tuple[int, int]]:
    """User and group of every device's node, by port; a node that is not there is left out."""
    owners = {}
    for device in devices:
        try:
            owners[device.port] = host.owner(device.device_path)
        except OSError:
            continue
    return owners


def _read_device(host: Host, port: str, errors: list[DeviceError]) -> UsbDevice | None:
    try:
        path = real_path(host, f"{DEVICES}/{port}")
        attributes = Attributes(host, path, port)
    except OSError as error:
        if host.exists(f"{DEVICES}/{port}"):
            errors.append(DeviceError(port, f"cannot be read: {describe(error)}"))
        return None
    device = _device(host, attributes, port)
    if attributes.vanished():
        return None
    errors += attributes.errors
    return device


def _device(host: Host, attributes: Attributes, port: str) -> UsbDevice | None:
    vendor, product = attributes.hex("idVendor", 4), attributes.hex("idProduct", 4)
    bus, number = attributes.count("busnum"), attributes.count("devnum")
    if not (vendor and product) or bus is None or number is None:
        attributes.fail("left out: idVendor, idProduct, busnum or devnum cannot be read")
        return None
    controllers = functions_on(attributes.path)
    return UsbDevice(
        port=port,
        vendor=vendor,
        product=product,
        bus=bus,
        number=number,
        class_code=_class(host, attributes, port),
        product_name=attributes.text("product"),
        serial=attributes.text("serial"),
        device_path=f"/dev/bus/usb/{bus:03d}/{number:03d}",
        controller=controllers[-1] if controllers else None,
    )


def _class(host: Host, attributes: Attributes, port: str) -> str:
    own = attributes.hex("bDeviceClass", 2) or "00"
    if own != "00":
        return own
    for name in sorted(attributes.names):
        if name.startswith(f"{port}:"):
            try:
                raw = host.read(f"{attributes.path}/{name}/bInterfaceClass")
            except OSError:
                continue  # an interface can go alone when a driver switches the configuration
            if found := hex_id(raw.decode("utf-8", "replace").strip(), 2):
                return found
    return own
