"""`braid airflow up|down|status`: a local Airflow with Braid's DAGs."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from braid.cli.output import Json, print_json, print_service, say
from braid.infra.airflow import service as local
from braid.infra.airflow.files import DAGS, USER, local_airflow
from braid.runtime.installation import require
from braid.runtime.settings import current_settings

airflow = typer.Typer(
    no_args_is_help=True, help="A local Airflow with Braid's DAGs, on 127.0.0.1, under BRAID_HOME."
)


def register(app: typer.Typer) -> None:
    app.add_typer(airflow, name="airflow")


@airflow.command()
def up(
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
    started = local.start(
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


@airflow.command()
def down() -> None:
    """End Airflow and the tasks that it runs; they are tried again after the next start. Not running: nothing to do."""
    stopped = local.stop(local_airflow(current_settings()))
    say("Airflow has stopped" if stopped else "Airflow was not running")


@airflow.command()
def status(json: Json = False) -> None:
    """Say whether Airflow runs, and where. Exit code 1 when it does not answer or a part of it is missing."""
    present = local.status(local_airflow(current_settings()))
    print_service(
        "airflow", present, json, "Airflow does not run as it should: `braid airflow up` starts it."
    )
