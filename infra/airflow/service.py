"""A local Airflow in the background: `start` waits until its DAGs have been read, `stop` leaves nobody behind."""

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from braid.errors import BraidError
from braid.infra.airflow.api import Api
from braid.infra.airflow.files import LocalAirflow, prepare
from braid.infra.services.service import HOST, Children, last_words, refuse_taken_ports, waited_for

# Without a log server (the files are on this machine) and without a triggerer (no DAG here defers): the API has the
# only port, and it is open to this machine alone.
PARTS = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
}
# Beside Airflow: a Spark that runs already, so that no task has to start one. Tasks do without it if it is gone.
STANDBY = "standby"
POOL = "spark"
START_TIMEOUT = 180.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class AirflowStatus:
    """What is known of a local Airflow: `healthy` means that it answers and that all its parts beat."""

    running: bool
    healthy: bool
    address: str
    processes: dict[str, int | None]
    airflow_home: str
    dags_folder: str


@dataclass(frozen=True)
class AirflowStarted:
    """What a start came to; the password only when it was made."""

    status: AirflowStatus
    dags: tuple[str, ...]
    already: bool
    new_password: str | None


def start(
    airflow: LocalAirflow,
    *,
    dags: Path,
    port: int,
    environment: Mapping[str, str],
    say: Say,
    unpause: bool = False,
) -> AirflowStarted:
    """Starts what does not run, and waits until the DAGs have been read; does nothing when all runs."""
    with airflow.starting():
        present = status(airflow)
        if present.running:
            _refuse_other_choices(airflow, dags, port)
            return _ready(airflow, _wait_until_healthy(airflow, {}), unpause, already=True)
        # Half of it is no use, and a part that was started with other choices would not fit.
        stop(airflow)
        refuse_taken_ports({"--port": port})
        made_password = prepare(airflow, dags, port, Path.cwd())
        environment = airflow_environment(airflow, environment)
        say("preparing Airflow's database")
        _migrate(airflow, environment)
        say(f"starting Airflow on {airflow.address}")
        try:
            children = {
                part: airflow.spawn(part, (_program("airflow"), *arguments), environment)
                for part, arguments in PARTS.items()
            }
            # In the folder where tasks run their commands, which must be the same for the standby to take them.
            airflow.spawn(STANDBY, (_program("braid"), "standby"), environment, Path.cwd())
            started = _ready(airflow, _wait_until_healthy(airflow, children), unpause)
        except BaseException:
            # Also on Ctrl-C: what was started here and does not answer must not stay behind.
            stop(airflow)
            raise
    return AirflowStarted(started.status, started.dags, False, airflow.password if made_password else None)


def stop(airflow: LocalAirflow) -> bool:
    """Ends Airflow with the tasks that run; whether there was anything to end."""
    return airflow.end()


def status(airflow: LocalAirflow) -> AirflowStatus:
    leaders = airflow.leaders()
    processes = {part: leaders.get(part) for part in (*PARTS, STANDBY)}
    running = all(processes[part] for part in PARTS)
    health = Api(airflow).health() if running else {}
    return AirflowStatus(
        running=running,
        healthy=all(health.get(part) == "healthy" for part in ("metadatabase", "scheduler", "dag_processor")),
        address=airflow.address,
        processes=processes,
        airflow_home=str(airflow.folder),
        dags_folder=str(airflow.dags),
    )


def airflow_environment(airflow: LocalAirflow, environment: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment for Airflow's processes and commands: the same Braid, and no other Airflow."""
    kept = {name: value for name, value in environment.items() if not name.startswith("AIRFLOW")}
    local = ",".join(filter(None, (kept.get("no_proxy") or kept.get("NO_PROXY"), HOST)))
    return kept | {
        "AIRFLOW_HOME": str(airflow.folder),
        "BRAID": kept.get("BRAID") or str(airflow.program),
        "BRAID_HOME": str(airflow.folder.parent),
        # Tasks reach the API at this machine's own address.
        "no_proxy": local,
        "NO_PROXY": local,
        # Otherwise a process that renames itself overwrites the environment that we know it by.
        "SPT_NOENV": "1",
    }


def _ready(
    airflow: LocalAirflow, present: AirflowStatus, unpause: bool, already: bool = False
) -> AirflowStarted:
    """Airflow with its DAGs and its pool."""
    api = Api(airflow)
    found = _wait_for_dags(airflow, api)
    api.create_pool(POOL, 1, "Spark applications of Braid at the same time")
    for dag in found if unpause else ():
        api.unpause(dag)
    return AirflowStarted(present, found, already, None)


def _wait_until_healthy(airflow: LocalAirflow, children: Children) -> AirflowStatus:
    missing = f"does not answer on {airflow.address}"
    return airflow.wait(lambda: status(airflow), children, START_TIMEOUT, missing)


def _wait_for_dags(airflow: LocalAirflow, api: Api) -> tuple[str, ...]:
    """Waits until every file with a DAG has been read; one that cannot be is an error."""
    wanted = {
        path.name for path in airflow.dags.glob("*.py") if re.search(r"\bDAG\(|@dag\b", path.read_text())
    }

    def look() -> tuple[str, ...] | None:
        for file, reason in api.import_errors().items():
            last_line = reason.strip().splitlines()[-1]
            raise BraidError(
                f"Airflow cannot read {file}: {last_line}. Mend it and run `braid airflow up` again."
            )
        dags = api.dags()
        return tuple(sorted(dags)) if wanted <= set(dags.values()) else None

    if (found := waited_for(look, START_TIMEOUT)) is None:
        raise BraidError(
            f"Airflow has not read its DAGs in {airflow.dags} after {START_TIMEOUT:.0f} s. "
            f"{last_words(airflow.log('dag-processor'))}"
        )
    return found


def _refuse_other_choices(airflow: LocalAirflow, dags: Path, port: int) -> None:
    if (airflow.port, airflow.dags) != (port, dags):
        raise BraidError(
            f"Airflow runs already on {airflow.address} with the DAGs of {airflow.dags}: `braid airflow down` ends it, "
            "and then it can be started otherwise."
        )


def _migrate(airflow: LocalAirflow, environment: Mapping[str, str]) -> None:
    with airflow.log("migrate").open("wb") as log:
        done = subprocess.run(
            (_program("airflow"), "db", "migrate"),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
        )
    if done.returncode != 0:
        raise BraidError(f"Airflow's database cannot be prepared. {last_words(airflow.log('migrate'))}")


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))
