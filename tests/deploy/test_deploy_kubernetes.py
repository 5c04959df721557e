"""Kubernetes' manifests against its schemas, and their ports, probes and rights against the program."""

import re
import shutil
import subprocess
import tomllib
from importlib.metadata import version

import pytest
import yaml

from deploy.manifests import KUBERNETES, MANIFESTS, documents, pods
from deploy.proxies import DEPLOY
from tenuto import config
from tenuto.db.migrations import CHECK_S
from tenuto.errors import SettingsInvalid
from tenuto.process.data_opening import MIGRATIONS_PATIENCE_S


def test_kustomize_finds_every_file() -> None:
    """Each manifest is named by the kustomization beside it, and nothing else is."""
    for folder in (KUBERNETES, KUBERNETES / "keda"):
        [listed] = documents(folder / "kustomization.yaml")
        there = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}

        assert there == set(listed["resources"])
        assert all(
            (folder / name).exists()
            for each in listed.get("configMapGenerator", [])
            for name in each["files"]
        )


def test_what_kustomize_makes_of_them_is_sound() -> None:
    """Names of settings and images are put in everywhere; the chart makes the same, and validates it."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("no kubectl here")
    rendered = subprocess.run([program, "kustomize", str(KUBERNETES)], capture_output=True, text=True)
    found = list(yaml.safe_load_all(rendered.stdout))
    images = set(re.findall(r"image: (\S+)", rendered.stdout))
    settings = [one["metadata"]["name"] for one in found if one["kind"] == "ConfigMap"]
    used = set(re.findall(r"name: (tenuto-settings\S*)", rendered.stdout))

    assert 0 == rendered.returncode, rendered.stderr
    assert {f"tenuto:{version('tenuto')}"} == images
    assert set(settings) == used
    assert {"tenuto"} == {one["metadata"].get("namespace", "tenuto") for one in found}


def test_every_pod_asks_for_little_and_may_do_less() -> None:
    """No root, no capability, nothing to write on, a limit of memory; secrets by reference alone."""
    for name, pod in pods():
        assert pod["securityContext"]["runAsNonRoot"], name
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            } == container["securityContext"], name
            assert {"requests", "limits"} == set(container["resources"]), name
            assert not [
                each
                for each in container.get("env", [])
                if "value" in each and each["name"] != "TENUTO_CONFIG"
            ], name


def test_workers_start_once_their_weights_are_there() -> None:
    """The Job takes minutes; without weights, a worker is ready, and offers nothing until it is restarted."""
    for name, pod in pods():
        [container] = pod["containers"]
        if "worker" in container["args"]:
            [first] = pod["initContainers"]
            mounts = {mount["mountPath"]: mount for mount in first["volumeMounts"]}

            assert container["args"][-1].split(",") == first["args"], name
            assert 'until tenuto models pull "$@"; do' in first["command"][2], name
            assert mounts["/var/cache/tenuto"]["readOnly"], name


def test_no_pod_gets_variables_that_are_no_settings() -> None:
    """Kubernetes sets TENUTO_API_PORT and more for the Service `tenuto-api`; no process starts with those."""
    with pytest.raises(SettingsInvalid, match="TENUTO_API_PORT"):
        config.load({"TENUTO_API_PORT": "tcp://10.96.1.2:80"})
    assert {False} == {pod["enableServiceLinks"] for _, pod in pods()}


def test_probes_ask_the_health_that_there_is() -> None:
    """At the port of the metrics, where no caller is in the way; a start may wait for migrations (P19)."""
    own = tomllib.loads((KUBERNETES / "tenuto.toml").read_text("utf-8"))
    for name, pod in pods():
        [container] = pod["containers"]
        probes = {kind: container[kind] for kind in container if kind.endswith("Probe")}
        if "api" not in container["args"] and "worker" not in container["args"]:
            assert {} == probes
            continue
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        asked = {
            kind: (probe["httpGet"]["path"], ports[probe["httpGet"]["port"]])
            for kind, probe in probes.items()
        }
        port = own["metrics_port" if "api" in container["args"] else "worker_metrics_port"]
        startup = probes["startupProbe"]

        assert {
            "startupProbe": ("/readyz", port),
            "readinessProbe": ("/readyz", port),
            "livenessProbe": ("/livez", port),
        } == asked, name
        assert startup["periodSeconds"] * startup["failureThreshold"] >= MIGRATIONS_PATIENCE_S + CHECK_S - 1


def test_metrics_are_scraped_where_they_are_told() -> None:
    """The port that a pod names for Prometheus is the one that its process listens on."""
    own = tomllib.loads((KUBERNETES / "tenuto.toml").read_text("utf-8"))
    told = {}
    for path in MANIFESTS:
        for found in documents(path):
            if found["kind"] == "Deployment":
                template = found["spec"]["template"]
                [container] = template["spec"]["containers"]
                ports = {port["name"]: port["containerPort"] for port in container["ports"]}
                scraped = int(template["metadata"]["annotations"]["prometheus.io/port"])
                told[found["metadata"]["name"]] = (scraped, ports["metrics"])
    settings = {name: "metrics_port" if name == "tenuto-api" else "worker_metrics_port" for name in told}
    [alone] = documents(DEPLOY / "prometheus" / "prometheus.yaml")
    [inside] = documents(DEPLOY / "prometheus" / "kubernetes.yaml")
    relabelled = inside["scrape_configs"][0]["relabel_configs"][1]
    [address] = re.findall(relabelled["regex"], "10.0.0.7:8080;9464")
    jobs = [job["job_name"] for config in (alone, inside) for job in config["scrape_configs"]]

    assert {name: (own[port], own[port]) for name, port in settings.items()} == told
    assert ("10.0.0.7", "9464") == address
    assert all(job.startswith("tenuto") for job in jobs)
