"""A stand-in for KubeVirt: from VM to pod to devices that are open on the host.

It does what KubeVirt 1.6 does as far as devices are concerned, in its words, with its own kinds,
and no guest ever runs. What it leaves out: webhooks, the subresource API (`virtctl`), migration.
"""
