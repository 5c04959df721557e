"""The manifests of deploy/kubernetes as objects, and what Kubernetes makes of an object."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from deploy.proxies import DEPLOY

KUBERNETES = DEPLOY / "kubernetes"
MANIFESTS = sorted(path for path in KUBERNETES.rglob("*.yaml") if path.name != "kustomization.yaml")


VERSION = "1.32"
"""The oldest version of Kubernetes whose schemas our objects must fit."""


def validate(found: dict[str, Any]) -> None:
    """Raises unless Kubernetes takes the object, by its strict schemas; KEDA's by those of its types."""
    # Importing both takes a second, which every process that collects this file would spend.
    import kubernetes_validate
    from cloudcoil.models.keda.v1alpha1 import ScaledObject, TriggerAuthentication

    if found["kind"] in ("ScaledObject", "TriggerAuthentication"):
        kind = ScaledObject if found["kind"] == "ScaledObject" else TriggerAuthentication
        read = kind.model_validate(found)
        # What it does not know it drops: nothing must be missing afterwards.
        assert found == json.loads(read.model_dump_json(by_alias=True, exclude_unset=True))
    else:
        kubernetes_validate.validate(found, VERSION, strict=True)


def documents(path: Path) -> list[dict[str, Any]]:
    """The objects in a file."""
    return list(yaml.safe_load_all(path.read_text("utf-8")))


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """The specification of every pod, by the name of what makes it."""
    for path in MANIFESTS:
        for found in documents(path):
            if found["kind"] in ("Deployment", "Job"):
                yield found["metadata"]["name"], found["spec"]["template"]["spec"]
