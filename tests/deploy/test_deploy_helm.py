"""The Helm chart, rendered by Helm's own library: deploy/kubernetes' objects, which Kubernetes takes."""

import copy
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest
import yaml

from deploy.manifests import KUBERNETES, MANIFESTS, documents, validate
from deploy.proxies import DEPLOY

CHART = DEPLOY / "helm" / "tenuto"
WIDEST: dict[str, Any] = {
    "image": {"repository": "registry.example.com/tenuto", "pullSecrets": [{"name": "registry"}]},
    "settings": {"speech_slots": 4},
    "settingsTables": '[models."hexgrad/Kokoro-82M"]\nthreads = 2\n',
    "workers": {
        "image": None,
        "speech": {"replicas": 4, "maxReplicas": 4, "nodeSelector": {"disk": "ssd"}},
        "recognition": {"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]},
    },
    "weights": {"storageClass": "shared"},
    "ingress": {"enabled": True, "className": "nginx", "annotations": {"example.com/body-size": "257m"}},
}
"""Every value that adds something to the objects, but KEDA's."""


def rendered(values: dict[str, Any] | None = None, *, revision: int = 1) -> list[dict[str, Any]]:
    """The objects of a release `tenuto` in a namespace of that name."""
    # It loads 85 MB of Helm, in tests that need them alone.
    import helm_python

    with helm_python.Chart.load(str(CHART)) as chart:
        texts = chart.render(values or {}, name="tenuto", namespace="tenuto", revision=revision)
    return [one for text in texts.values() for one in yaml.safe_load_all(text) if one is not None]


def test_the_chart_makes_the_objects_of_the_plain_manifests() -> None:
    """With its own values and KEDA: neither has an object, a field or a setting that the other has not."""
    made = rendered({"keda": {"enabled": True}})
    [settings] = [one for one in made if one["kind"] == "ConfigMap"]
    plain = {key: one for path in MANIFESTS for one in documents(path) for key, one in [plain_object(one)]}
    del plain["Namespace", "tenuto"]

    assert tomllib.loads((KUBERNETES / "tenuto.toml").read_text("utf-8")) == tomllib.loads(
        settings["data"]["tenuto.toml"]
    )
    assert plain == {key: one for one in made if one != settings for key, one in [chart_object(one)]}


def test_what_the_chart_makes_is_what_kubernetes_takes() -> None:
    """By its schemas and KEDA's, which the plain manifests pass as well; `helm lint` only misses an icon."""
    import helm_python

    linted = helm_python.lint(str(CHART), copy.deepcopy(WIDEST), strict=True)
    for one in rendered(copy.deepcopy(WIDEST)) + rendered({"keda": {"enabled": True}}):
        validate(one)

    assert ["icon is recommended"] == [message["error"] for message in linted["messages"]]
    assert [] == linted["errors"]


def test_values_reach_the_objects() -> None:
    """Image, workers, settings and ingress; changed settings restart pods, a new revision has new Jobs."""
    usual, wide = rendered(), rendered(WIDEST, revision=2)
    names = {(one["kind"], one["metadata"]["name"]) for one in wide}
    workers = {one["metadata"]["name"]: one["spec"] for one in wide if one["kind"] == "Deployment"}
    pod = workers["tenuto-worker-speech"]["template"]["spec"]
    [settings] = [one["data"]["tenuto.toml"] for one in wide if one["kind"] == "ConfigMap"]
    digests = [set(digests_of(objects)) for objects in (usual, wide)]

    assert {f"registry.example.com/tenuto:{version('tenuto')}"} == {
        container["image"]
        for spec in workers.values()
        for container in spec["template"]["spec"]["containers"]
    }
    assert ("Deployment", "tenuto-worker-image") not in names
    assert {("Ingress", "tenuto"), ("Job", "tenuto-migrate-2"), ("Job", "tenuto-weights-2")} <= names
    assert 4 == workers["tenuto-worker-speech"]["replicas"]
    assert ({"disk": "ssd"}, [{"name": "registry"}]) == (pod["nodeSelector"], pod["imagePullSecrets"])
    assert 4 == tomllib.loads(settings)["speech_slots"]
    assert {"threads": 2} == tomllib.loads(settings)["models"]["hexgrad/Kokoro-82M"]
    assert [1, 1] == [len(each) for each in digests]
    assert digests[0] != digests[1]


def test_parts_that_are_off_make_no_objects() -> None:
    """No Job and no policy where the values say so; KEDA and an ingress are off by themselves."""
    off = {"migrate": {"enabled": False}, "weights": {"pull": False}, "network": {"enabled": False}}
    kinds = {one["kind"] for one in rendered(off)}

    assert not kinds & {"Job", "NetworkPolicy", "ScaledObject", "TriggerAuthentication", "Ingress"}


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"api": {"replica": 3}}, "replica"),
        ({"workers": {"speech": {"models": []}}}, "models"),
        ({"keda": {"enabled": "yes"}}, "enabled"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(values: dict[str, Any], named: str) -> None:
    import helm_python

    with helm_python.Chart.load(str(CHART)) as chart, pytest.raises(helm_python.HelmError) as refused:
        chart.validate_schema(chart.merge_values(values))

    assert named in str(refused.value)


def plain_object(one: dict[str, Any]) -> tuple[tuple[str, str], dict[str, Any]]:
    """As kustomize puts it: with its label and the name of the image."""
    # A new mapping: the manifest uses its labels again, by an alias, where nothing is added.
    one["metadata"]["labels"] = {**one["metadata"].get("labels", {}), "app.kubernetes.io/part-of": "tenuto"}
    for container in containers(one):
        container["image"] = f"tenuto:{version('tenuto')}"
    return (one["kind"], one["metadata"]["name"]), one


def chart_object(one: dict[str, Any]) -> tuple[tuple[str, str], dict[str, Any]]:
    """Without what a release adds: the number of its revision, and the digest of its settings."""
    if one["kind"] == "Job":
        one["metadata"]["name"] = one["metadata"]["name"].removesuffix("-1")
    if one["kind"] == "Deployment":
        del one["spec"]["template"]["metadata"]["annotations"]["tenuto/settings"]
    return (one["kind"], one["metadata"]["name"]), one


def containers(one: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Those of a Deployment or a Job."""
    pod = one.get("spec", {}).get("template", {}).get("spec", {})
    yield from [*pod.get("initContainers", []), *pod.get("containers", [])]


def digests_of(objects: list[dict[str, Any]]) -> Iterator[str]:
    """The digest of the settings that each Deployment's pods carry."""
    for one in objects:
        if one["kind"] == "Deployment":
            yield one["spec"]["template"]["metadata"]["annotations"]["tenuto/settings"]
