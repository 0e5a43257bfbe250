"""`braid broker`, `cluster` and `airflow`: what Braid runs on, on this machine: started, stopped, looked at."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from braid.cli.output import Json, console, failed, print_json, print_service, print_table, say
from braid.errors import BraidError
from braid.infra import brokers
from braid.infra import cluster as spark_cluster
from braid.infra.airflow import service as local_service
from braid.infra.airflow.files import DAGS, USER, local_airflow
from braid.infra.cluster_files import local_cluster
from braid.runtime.installation import require
from braid.runtime.settings import MEMORY, current_settings

cluster = typer.Typer(
    no_args_is_help=True,
    help="A Spark standalone cluster on 127.0.0.1: a master and workers, each a process of its own.",
)

broker = typer.Typer(
    no_args_is_help=True,
    help="The embedded Kafka broker on 127.0.0.1, data under BRAID_HOME: one node, or BRAID_KAFKA_NODES of them.",
)

airflow = typer.Typer(
    no_args_is_help=True, help="A local Airflow with Braid's DAGs, on 127.0.0.1, under BRAID_HOME."
)


@cluster.command("start")
def start_cluster(
    workers: Annotated[
        int | None, typer.Option(help="How many workers.", min=1, max=64, show_default="2")
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(
            help="Cores of each worker: how many tasks it works on at a time.",
            min=1,
            max=256,
            show_default="2",
        ),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="Memory of each worker for its executors.", show_default="4g")
    ] = None,
) -> None:
    """Start the cluster and wait until its workers are ready. What runs stays; a part that has died is started again.

    With BRAID_SPARK_SECRET, only who knows it may use the cluster.

    Example: `braid cluster start --workers 2 && braid cluster status`
    """
    settings = current_settings()
    settings.make_home()
    here = local_cluster(settings)
    if memory is not None and not MEMORY.match(memory):
        raise BraidError(f"--memory {memory!r} is not a size: write it as in 4g or 512m.")
    asked = {"workers": workers, "cores": cores, "memory": memory}
    present = spark_cluster.start(
        here, say=say, **{name: value for name, value in asked.items() if value is not None}
    )
    say(
        f"the cluster has {present.workers_alive} workers with {present.cores} cores; its pages are at {present.pages}"
    )
    if not here.secret:
        say("without BRAID_SPARK_SECRET, everybody on this machine can run programs as you through it")
    if settings.spark_master != here.master:
        say(f"`export BRAID_SPARK_MASTER={here.master}` lets commands run there")


@cluster.command("stop")
def stop_cluster() -> None:
    """End the cluster and the executors on it. Not running: nothing to do."""
    stopped = spark_cluster.stop(local_cluster(current_settings()))
    say("the cluster has stopped" if stopped else "the cluster was not running")


@cluster.command("status")
def status_cluster(json: Json = False) -> None:
    """Say what runs of the cluster, and for whom. Exit code 1 when its master or a worker is missing."""
    present = spark_cluster.status(local_cluster(current_settings()))
    incomplete = "the cluster is not complete: `braid cluster start` starts what is missing."
    print_service("cluster", present, json, incomplete)


@broker.command("start")
def start_broker() -> None:
    """Start the broker and wait until it answers. Its data survives restarts. Already running: nothing to do.

    With BRAID_KAFKA_NODES=3 it is three, with three copies of each topic; the loss of any one loses nothing. What is
    missing of them is started.

    Example: `braid broker start && braid broker status`
    """
    settings = current_settings()
    settings.make_home()
    present = brokers.start(brokers.embedded_cluster(settings), say=console.print)
    for node in present.nodes:
        console.print(f"the broker answers on {node.bootstrap} (process {node.pid})")


@broker.command("stop")
def stop_broker() -> None:
    """Stop the broker cleanly. Not running: nothing to do."""
    stopped = brokers.stop(brokers.embedded_cluster(current_settings()))
    console.print("the broker has stopped" if stopped else "the broker was not running")


@broker.command("status")
def status_broker(json: Json = False) -> None:
    """Say whether the broker runs and answers, node by node. Exit code 1 when one does not."""
    present = brokers.status(brokers.embedded_cluster(current_settings()))
    if json:
        print_json(asdict(present))
    else:
        columns = ("running", "answers", "pid", "bootstrap", "data")
        rows = ([getattr(node, column) for column in columns] for node in present.nodes)
        print_table(f"broker (cluster {present.cluster_id or 'not formatted yet'})", columns, rows)
    if not present.answers:
        raise failed(json, "the broker does not answer: `braid broker start` starts what is missing.")


@airflow.command("up")
def up_airflow(
    port: Annotated[
        int | None,
        typer.Option(help="Port of its pages; else that of the last start, else 8080.", min=1, max=65535),
    ] = None,
    dags: Annotated[
        Path,
        typer.Option(
            help="Folder with the DAGs.",
            file_okay=False,
            exists=True,
            resolve_path=True,
            show_default="those of Braid",
        ),
    ] = DAGS,
    unpause: Annotated[bool, typer.Option("--unpause", help="Let all DAGs run on their schedules.")] = False,
    json: Json = False,
) -> None:
    """Start Airflow in the background and wait until it has read the DAGs. Already running: nothing to do.

    Its tasks run `braid` with this command's settings, in this folder. The password of its one user is made at the
    first start and shown then.

    Example: `braid airflow up --port 8081`
    """
    require("airflow")
    settings = current_settings()
    settings.make_home()
    here = local_airflow(settings)
    started = local_service.start(
        here,
        dags=dags,
        port=port or here.port,
        environment=os.environ,
        unpause=unpause,
        say=(lambda text: None) if json else say,
    )
    if json:
        print_json(
            asdict(started.status)
            | {"dags": started.dags, "user": USER, "new_password": started.new_password}
        )
        return
    say(
        f"Airflow runs {'already ' if started.already else ''}on {here.address} with {', '.join(started.dags)}"
    )
    shown = f"password {started.new_password}, which is kept" if started.new_password else "its password is"
    say(f"user {USER}, {shown} in {here.passwords}")
    say(f"`export AIRFLOW_HOME={here.folder}` lets the `airflow` command find it")


@airflow.command("down")
def down_airflow() -> None:
    """End Airflow and the tasks that it runs; they are tried again after the next start. Not running: nothing to do."""
    stopped = local_service.stop(local_airflow(current_settings()))
    say("Airflow has stopped" if stopped else "Airflow was not running")


@airflow.command("status")
def status_airflow(json: Json = False) -> None:
    """Say whether Airflow runs, and where. Exit code 1 when it does not answer or a part of it is missing."""
    present = local_service.status(local_airflow(current_settings()))
    print_service(
        "airflow", present, json, "Airflow does not run as it should: `braid airflow up` starts it."
    )
