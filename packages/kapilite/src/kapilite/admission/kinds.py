"""The two kinds of configuration that clients write."""

from __future__ import annotations

from kapilite.builtin import schemas
from kapilite.kinds import Column, Kind

GROUP = "admissionregistration.k8s.io"
MUTATING = "MutatingWebhookConfiguration"
VALIDATING = "ValidatingWebhookConfiguration"


def _kind(name: str) -> Kind:
    return Kind(
        group=GROUP,
        version="v1",
        kind=name,
        plural=f"{name.lower()}s",
        singular=name.lower(),
        namespaced=False,
        categories=("api-extensions",),
        columns=(
            Column(name="Webhooks", type="integer", json_path=""),  # made by `printers`
            Column(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        ),
        schema=schemas.of_kind(f"admissionregistration.v1.{name}"),
    )


KINDS: tuple[Kind, ...] = (_kind(MUTATING), _kind(VALIDATING))
