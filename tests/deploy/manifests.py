"""The manifests of deploy/kubernetes as objects."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from deploy.proxies import DEPLOY

KUBERNETES = DEPLOY / "kubernetes"
MANIFESTS = sorted(path for path in KUBERNETES.rglob("*.yaml") if path.name != "kustomization.yaml")


def documents(path: Path) -> list[dict[str, Any]]:
    """The objects in a file."""
    return list(yaml.safe_load_all(path.read_text("utf-8")))


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """The specification of every pod, by the name of what makes it."""
    for path in MANIFESTS:
        for found in documents(path):
            if found["kind"] in ("Deployment", "Job"):
                yield found["metadata"]["name"], found["spec"]["template"]["spec"]
