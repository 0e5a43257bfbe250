"""Containers and manifests fit Kubernetes' schemas and Braid: real commands, real settings, secrets by reference.

None of them can be run here; what can be known without a cluster is checked.
"""

import os
import re
import shlex
import subprocess
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from pydantic import SecretStr
from yamllint import linter
from yamllint.config import YamlLintConfig

from braid.infra.jars import KAFKA_VERSION, SPARK_VERSION
from braid.runtime.settings import PREFIX, Settings
from tests.documents import complaint

ROOT = Path(__file__).parents[2]
CONTAINER, KUBERNETES = ROOT / "infra" / "container", ROOT / "infra" / "kubernetes"
FILES = sorted([*KUBERNETES.glob("*.yaml"), CONTAINER / "compose.yaml"])
VERSION = "1.37"
# Kinds that operators add; their schemas are theirs, and what matters of them is asked below.
OPERATORS = {
    "Kafka",
    "KafkaNodePool",
    "KafkaTopic",
    "KafkaUser",
    "SparkApplication",
    "PodMonitor",
    "ServiceMonitor",
}
NOT_OBJECTS = ("airflow-values.yaml", "kustomization.yaml")


def objects() -> list[dict[str, Any]]:
    files = [file for file in KUBERNETES.glob("*.yaml") if file.name not in NOT_OBJECTS]
    return [found for file in files for found in yaml.safe_load_all(file.read_text())]


def only(kind: str, name: str | None = None) -> dict[str, Any]:
    (found,) = [one for one in objects() if one["kind"] == kind and name in (None, one["metadata"]["name"])]
    return found


@cache
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CONTAINER / "compose.yaml").read_text())
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_yaml_is_well_formed(file: Path) -> None:
    config = YamlLintConfig(file=str(ROOT / ".yamllint"))
    assert [str(problem) for problem in linter.run(file.read_text(), config)] == []


@pytest.mark.parametrize(
    "found", [one for one in objects() if one["kind"] not in OPERATORS], ids=lambda one: one["kind"]
)
def test_an_object_fits_the_schema_of_kubernetes(found: dict[str, Any]) -> None:
    kubernetes_validate.validate(found, VERSION, strict=True)


def test_the_check_of_schemas_can_fail() -> None:
    right = only("Deployment", "braid-serving")
    wrong = right | {"spec": right["spec"] | {"replica": 2}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSION, strict=True)


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_the_pods_of_the_engine_fit_the_schema_too(role: str) -> None:
    """An operator's object, but made of Kubernetes' own parts: as a pod they can be checked."""
    spec = only("SparkApplication")["spec"]
    parts = {
        name: spec[role][name]
        for name in ("env", "envFrom", "volumeMounts", "securityContext")
        if name in spec[role]
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": role, "labels": spec[role]["labels"]},
        "spec": {
            "serviceAccountName": spec[role]["serviceAccount"],
            "containers": [{"name": role, "image": spec["image"], **parts}],
            "volumes": spec["volumes"],
        },
    }
    kubernetes_validate.validate(pod, VERSION, strict=True)


def test_every_kind_is_kubernetes_own_or_an_operators() -> None:
    assert {one["kind"] for one in objects()} >= OPERATORS
    assert {one["apiVersion"] for one in objects() if one["kind"] in OPERATORS} == {
        "kafka.strimzi.io/v1beta2", "sparkoperator.k8s.io/v1beta2", "monitoring.coreos.com/v1"
    }  # fmt: skip


def test_all_files_are_applied_and_all_objects_are_in_the_namespace() -> None:
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    assert set(listed) == {file.name for file in KUBERNETES.glob("*.yaml")} - set(NOT_OBJECTS)
    spaces = {one["metadata"].get("namespace") for one in objects() if one["kind"] != "Namespace"}
    assert spaces == {only("Namespace")["metadata"]["name"]}


def pods() -> list[dict[str, Any]]:
    """Of the deployments."""
    return [one["spec"]["template"]["spec"] for one in objects() if one["kind"] == "Deployment"]


def containers() -> Iterator[tuple[list[str], list[dict[str, Any]]]]:
    """(arguments, environment) of every container that Braid's image runs in."""
    engine = only("SparkApplication")["spec"]
    yield engine["arguments"], engine["driver"]["env"]
    for pod in pods():
        (container,) = pod["containers"]
        yield container["args"], container["env"]
    for service in compose()["services"].values():
        if service["image"].startswith("braid"):
            pairs = service.get("environment", {}).items()
            yield service["command"], [{"name": name, "value": str(value)} for name, value in pairs]


def test_every_container_runs_a_command_that_exists() -> None:
    commands = [arguments for arguments, _ in containers()]
    assert len(commands) == 8
    ours = [one for one in commands if one[0] not in ("airflow", "master", "worker")]
    assert [complaint(shlex.join(["braid", *one])) for one in ours] == [None] * len(ours)
    assert complaint("braid fly") is not None


def plain(value: str) -> str:
    """As compose would have it, without variables of the machine: ${NAME:-default} or ${NAME:?message}."""
    return re.sub(r"\$\{\w+:([-?])([^}]*)\}", lambda found: found[2] if found[1] == "-" else "x", value)


def test_every_setting_is_one_and_its_value_is_accepted() -> None:
    shared = only("ConfigMap")["data"]
    docker = dict(re.findall(r"(BRAID_\w+)=(\S+)", (CONTAINER / "Dockerfile").read_text()))
    for named in (
        shared,
        docker,
        *({one["name"]: one.get("value") for one in env} for _, env in containers()),
    ):
        ours = {
            name.removeprefix(PREFIX).lower(): value
            for name, value in named.items()
            if name.startswith(PREFIX)
        }
        assert set(ours) <= set(Settings.model_fields)
        Settings(**{name: plain(value) for name, value in ours.items() if value is not None})


def test_no_secret_stands_in_a_file() -> None:
    secret = {
        f"{PREFIX}{name.upper()}"
        for name, field in Settings.model_fields.items()
        if field.annotation is SecretStr
    }
    assert "BRAID_KAFKA_PASSWORD" in secret
    used = set()
    for _, env in containers():
        for one in env:
            if one["name"] in secret or re.search("SECRET|PASSWORD|TOKEN|ACCESS_KEY", one["name"]):
                used.add(one["name"])
                assert "secretKeyRef" in one.get("valueFrom", {}) or one["value"].startswith("${"), one
    assert used == {"BRAID_KAFKA_PASSWORD", "BRAID_SERVE_TOKEN"}
    assert not [one for one in objects() if one["kind"] == "Secret"]
    assert not set(only("ConfigMap")["data"]) & secret


def test_serving_can_be_drained_and_is_asked_what_it_answers() -> None:
    from serving_layer.http.app import create_app
    from serving_layer.memory.all_views import AllViews

    deployment, service, budget = (
        only("Deployment", "braid-serving")["spec"],
        only("Service")["spec"],
        only("PodDisruptionBudget")["spec"],
    )
    labels = deployment["template"]["metadata"]["labels"]
    selectors = (
        deployment["selector"]["matchLabels"],
        service["selector"],
        budget["selector"]["matchLabels"],
    )
    assert all(selector.items() <= labels.items() for selector in selectors)
    assert budget["minAvailable"] < deployment["replicas"]
    (container,) = deployment["template"]["spec"]["containers"]
    assert container["ports"][0]["containerPort"] == Settings().serve_port
    known = create_app(AllViews(Settings(), 0)).openapi()["paths"]
    probes = [
        container[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe", "startupProbe")
    ]
    assert probes == ["/ready", "/health", "/health"]
    assert set(probes) | {only("ServiceMonitor")["spec"]["endpoints"][0]["path"]} <= set(known)


def test_nobody_is_root() -> None:
    engine = only("SparkApplication")["spec"]
    contexts = [
        engine["driver"]["securityContext"],
        engine["executor"]["securityContext"],
        *(pod["securityContext"] for pod in pods()),
    ]
    assert len(contexts) == 4
    assert all(context["runAsNonRoot"] and context["runAsUser"] == 10001 for context in contexts)
    for pod in pods():
        assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    last = re.findall(r"^USER (.+)$", (CONTAINER / "Dockerfile").read_text(), re.MULTILINE)[-1]
    assert last == "10001:10001"


def test_every_pod_is_as_restricted_as_its_namespace_asks() -> None:
    assert only("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    engine = only("SparkApplication")["spec"]
    airflow = yaml.safe_load((KUBERNETES / "airflow-values.yaml").read_text())["securityContexts"]
    contexts = [
        *(engine[role]["securityContext"] for role in ("driver", "executor")),
        *(pod["securityContext"] | pod["containers"][0]["securityContext"] for pod in pods()),
        airflow["pod"] | airflow["containers"],
    ]
    assert len(contexts) == 5
    for context in contexts:
        assert context["runAsNonRoot"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_engine_is_the_only_one_and_comes_back_with_its_checkpoints() -> None:
    spec = only("SparkApplication")["spec"]
    assert spec["restartPolicy"] == {"type": "Always"}
    assert only("ConfigMap")["data"]["BRAID_HOME"].startswith("s3a://")
    assert spec["sparkVersion"] == SPARK_VERSION
    program = spec["mainApplicationFile"].removeprefix("local:///opt/braid/")
    assert (ROOT / program).is_file()
    logging = spec["sparkConf"]["spark.driver.extraJavaOptions"].partition("=/opt/braid/")[2]
    assert (ROOT / logging).is_file()
    paths = spec["sparkConf"]["spark.driver.extraClassPath"].split(":")
    assert [path.removeprefix("/opt/braid/.venv/share/braid/") for path in paths] == [
        "jars/spark/*",
        "jars-s3/s3/*",
    ]
    assert spec["sparkConf"]["spark.executor.extraClassPath"].split(":") == paths
    # Executors read Kafka with what the driver sends them, and need no password of their own.
    assert "env" not in spec["executor"]


def test_kafka_keeps_three_copies_and_lets_each_user_do_what_it_must() -> None:
    kafka, topic = only("Kafka")["spec"]["kafka"], only("KafkaTopic")["spec"]
    assert kafka["version"] == KAFKA_VERSION
    assert only("KafkaNodePool")["spec"]["replicas"] == topic["replicas"] == 3
    assert kafka["config"]["default.replication.factor"] == 3
    assert kafka["config"]["min.insync.replicas"] == topic["config"]["min.insync.replicas"] == 2
    assert kafka["config"]["log.message.timestamp.type"] == "LogAppendTime"
    (listener,) = kafka["listeners"]
    settings = only("ConfigMap")["data"]
    assert (listener["tls"], listener["authentication"]["type"]) == (
        True,
        settings["BRAID_KAFKA_MECHANISM"].lower(),
    )
    assert settings["BRAID_KAFKA_BOOTSTRAP"].endswith(f":{listener['port']}")
    rights = {
        one["metadata"]["name"]: one["spec"]["authorization"]["acls"][0]["operations"]
        for one in objects()
        if one["kind"] == "KafkaUser"
    }
    assert rights == {
        "braid-ingest": ["Describe", "Read"],
        "shop": ["Describe", "Write"],
        "braid-sinks": ["Create", "Describe", "Read", "Write"],
    }
    (sinks,) = only("Deployment", "braid-sinks")["spec"]["template"]["spec"]["containers"]
    for listed in (only("SparkApplication")["spec"]["driver"]["env"], sinks["env"]):
        env = {one["name"]: one for one in listed}
        user = env["BRAID_KAFKA_USER"]["value"]
        assert user in rights
        assert env["BRAID_KAFKA_PASSWORD"]["valueFrom"]["secretKeyRef"]["name"] == user


def test_of_the_sinks_there_is_never_a_second_one_and_prometheus_finds_them() -> None:
    spec = only("Deployment", "braid-sinks")["spec"]
    assert spec["strategy"] == {"type": "Recreate"}
    assert spec["replicas"] <= 1
    (container,) = spec["template"]["spec"]["containers"]
    assert container["ports"][0]["containerPort"] == Settings().health_port
    assert container["livenessProbe"]["httpGet"] == {"path": "/alive", "port": container["ports"][0]["name"]}
    monitor = only("PodMonitor", "braid-sinks")["spec"]
    policy = only("NetworkPolicy", "sinks-metrics")["spec"]
    for selector in (monitor["selector"], policy["podSelector"], spec["selector"]):
        assert selector["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert monitor["podMetricsEndpoints"][0]["port"] == container["ports"][0]["name"]
    assert policy["ingress"][0]["ports"] == [{"port": Settings().health_port}]


def test_every_image_is_pinned_and_braids_is_the_same_everywhere() -> None:
    dockerfile = (CONTAINER / "Dockerfile").read_text()
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) == {"${BASE}"}
    bases = re.findall(r"^ARG BASE=(\S+)", dockerfile, re.MULTILINE)
    services = [service["image"] for service in compose()["services"].values()]
    images = {*bases, *services, only("SparkApplication")["spec"]["image"]}
    values = yaml.safe_load((KUBERNETES / "airflow-values.yaml").read_text())
    images |= {":".join(str(values["images"]["airflow"][key]) for key in ("repository", "tag"))}
    images |= {container["image"] for pod in pods() for container in pod["containers"]}
    assert images == {"python:3.11-slim-bookworm", "braid:0.1.0", f"apache/kafka:{KAFKA_VERSION}"}


def test_the_image_has_what_its_file_copies_and_says_how_it_is() -> None:
    dockerfile = (CONTAINER / "Dockerfile").read_text()
    copied = [
        word
        for line in re.findall(r"^COPY (?!--)(.+)$", dockerfile, re.MULTILINE)
        for word in line.split()[:-1]
    ]
    assert copied
    assert [word for word in copied if not (ROOT / word).exists()] == []
    health = re.search(r'HEALTHCHECK .* CMD \["(.+)"\]$', dockerfile, re.MULTILINE)
    assert health is not None
    assert complaint(health[1].replace('", "', " ")) is None
    entry = re.search(r"/opt/braid/(\S+\.sh)", dockerfile)
    assert entry is not None
    assert os.access(ROOT / entry[1], os.X_OK)


@pytest.fixture
def entrypoint(tmp_path: Path) -> Any:
    """Runs the image's entry among programs that only say how they were called, a word a line."""
    for name in ("braid", "spark-submit", "spark-class", "java", "airflow"):
        program = tmp_path / name
        program.write_text('#!/bin/sh\necho "${0##*/}"\nfor word in "$@"; do echo "$word"; done\n')
        program.chmod(0o755)

    def run(*words: str, **environment: str) -> list[str]:
        known = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SPARK_HOME": "/spark", **environment}
        done = subprocess.run(
            [CONTAINER / "entrypoint.sh", *words], env=known, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    return run


def test_a_container_runs_the_command_that_it_is_given(entrypoint: Any) -> None:
    assert entrypoint("stream", "--ingest") == ["braid", "stream", "--ingest"]
    assert entrypoint("worker", "spark://m:7077") == [
        "spark-class", "org.apache.spark.deploy.worker.Worker", "spark://m:7077"
    ]  # fmt: skip
    assert entrypoint("airflow", "scheduler") == ["airflow", "scheduler"]
    # As Airflow's chart has it.
    assert entrypoint("bash", "-c", "exec airflow scheduler") == ["airflow", "scheduler"]


def test_a_driver_is_submitted_in_its_pod(entrypoint: Any) -> None:
    said = entrypoint(
        "driver", "--properties-file", "f", "app.py", "stream", SPARK_DRIVER_BIND_ADDRESS="10.0.0.7"
    )
    assert said == [
        "spark-submit", "--deploy-mode", "client", "--conf", "spark.driver.bindAddress=10.0.0.7",
        "--properties-file", "f", "app.py", "stream",
    ]  # fmt: skip


def test_an_executor_gets_its_options_as_they_are(entrypoint: Any) -> None:
    given = {
        "SPARK_JAVA_OPT_0": '-Da=one "two" three', "SPARK_JAVA_OPT_1": "-Db=$HOME;x", "SPARK_EXECUTOR_MEMORY": "4g",
        "SPARK_DRIVER_URL": "spark://d", "SPARK_EXECUTOR_ID": "3", "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "app", "SPARK_EXECUTOR_POD_IP": "10.0.0.8", "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "pod", "SPARK_CLASSPATH": "/jars/*",
    }  # fmt: skip
    said = entrypoint("executor", **given)
    assert said[:5] == ["java", '-Da=one "two" three', "-Db=$HOME;x", "-Xms4g", "-Xmx4g"]
    assert "/jars/*" in said[6]
    assert said[7:] == [
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend", "--driver-url", "spark://d",
        "--executor-id", "3", "--cores", "2", "--app-id", "app", "--hostname", "10.0.0.8", "--resourceProfileId", "0",
        "--podName", "pod",
    ]  # fmt: skip


def test_what_an_executor_is_told_by_is_what_spark_tells_it() -> None:
    import pyspark

    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as opened:
        known = opened.read("org/apache/spark/deploy/k8s/Constants$.class")
    named = set(re.findall(r"SPARK_[A-Z_]+", (CONTAINER / "entrypoint.sh").read_text())) - {"SPARK_HOME"}
    assert len(named) > 8
    assert sorted(name for name in named if name.encode() not in known) == []
