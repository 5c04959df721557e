"""The Containerfile as a text; test_deploy_monitoring.py has its health check, `make fresh` runs it."""

import re
from importlib.metadata import version

from deploy.manifests import KUBERNETES, documents
from deploy.proxies import DEPLOY

ROOT = DEPLOY.parent
CONTAINERFILE = DEPLOY / "container" / "Containerfile"
NAME = f"tenuto:{version('tenuto')}"


def instructions() -> list[tuple[str, str]]:
    """Each instruction and what follows it; lines that continue are joined, comments are left out."""
    lines = [line for line in CONTAINERFILE.read_text("utf-8").splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (name, rest.strip()) for line in joined.splitlines() if line for name, rest in [line.split(" ", 1)]
    ]


def test_the_image_is_built_from_what_is_there() -> None:
    """Each file that is copied is in the checkout and not kept out; it runs as nobody special."""
    kept = CONTAINERFILE.with_name("Containerfile.dockerignore").read_text("utf-8").splitlines()
    found = instructions()
    copied = [
        source
        for name, rest in found
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]

    assert len(copied) >= 9
    assert not [source for source in copied if not (ROOT / source).exists()]
    assert not [
        source for source in copied if not any(source.startswith(f[1:]) for f in kept if f[:1] == "!")
    ]
    assert [("USER", "10001:10001")] == [pair for pair in found if pair[0] == "USER"]
    assert any("--require-hashes -r requirements/serve.txt" in rest for _, rest in found)
    assert "://" not in CONTAINERFILE.read_text("utf-8")


def test_every_file_names_the_version_that_this_is() -> None:
    """Compose, Kubernetes, the image's own label and the documentation: one name, one version."""
    named = {
        (path.name, name)
        for folder in (DEPLOY, ROOT / "docs" / "operations")
        for path in folder.rglob("*")
        if path.is_file()
        for name in re.findall(r"\btenuto:\d+\.\d[\w.]*", path.read_text("utf-8"))
    }
    [kustomization] = documents(KUBERNETES / "kustomization.yaml")
    [label] = re.findall(r'image\.version="([^"]+)"', CONTAINERFILE.read_text("utf-8"))

    assert {NAME} == {name for _, name in named}
    assert {"one-machine.yaml", "many-processes.yaml", "Containerfile"} <= {file for file, _ in named}
    assert [{"name": "tenuto", "newName": "tenuto", "newTag": version("tenuto")}] == kustomization["images"]
    assert version("tenuto") == label
