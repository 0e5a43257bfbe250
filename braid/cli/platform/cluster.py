"""`braid cluster start|stop|status`: a Spark standalone cluster on this machine."""

from typing import Annotated

import typer

from braid.cli.output import Json, print_service, say
from braid.errors import BraidError
from braid.infra import cluster as local
from braid.infra.cluster_files import local_cluster
from braid.runtime.settings import MEMORY, current_settings

cluster = typer.Typer(
    no_args_is_help=True,
    help="A Spark standalone cluster on 127.0.0.1: a master and workers, each a process of its own.",
)


def register(app: typer.Typer) -> None:
    app.add_typer(cluster, name="cluster")


@cluster.command()
def start(
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
    present = local.start(
        here, say=say, **{name: value for name, value in asked.items() if value is not None}
    )
    say(
        f"the cluster has {present.workers_alive} workers with {present.cores} cores; its pages are at {present.pages}"
    )
    if not here.secret:
        say("without BRAID_SPARK_SECRET, everybody on this machine can run programs as you through it")
    if settings.spark_master != here.master:
        say(f"`export BRAID_SPARK_MASTER={here.master}` lets commands run there")


@cluster.command()
def stop() -> None:
    """End the cluster and the executors on it. Not running: nothing to do."""
    stopped = local.stop(local_cluster(current_settings()))
    say("the cluster has stopped" if stopped else "the cluster was not running")


@cluster.command()
def status(json: Json = False) -> None:
    """Say what runs of the cluster, and for whom. Exit code 1 when its master or a worker is missing."""
    present = local.status(local_cluster(current_settings()))
    incomplete = "the cluster is not complete: `braid cluster start` starts what is missing."
    print_service("cluster", present, json, incomplete)
