"""From an inventory to the objects that describe it, a module per family of devices.

Each module holds the same pure functions: `wanted`, the objects that should exist by name, and
`status`, an object's status given what is stored already. They touch no host and no API, so what a
user will see for a host is a value that tests can compare.
"""
