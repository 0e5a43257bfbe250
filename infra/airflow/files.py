"""What a local Airflow keeps under BRAID_HOME: its configuration, its secrets, and the program that its tasks run."""

import base64
import configparser
import json
import os
import secrets
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from braid.errors import BraidError
from braid.infra.services.service import HOST, Service
from braid.runtime.settings import Settings

USER = "admin"
DEFAULT_PORT = 8080
# Airflow reads files, not packages. In a checkout they are beside this folder, installed they are too.
DAGS = Path(__file__).resolve().parents[2] / "dags"
# Each worker is a process of 130 MB, and the pool lets one Spark run at a time.
PARALLELISM = 2
# Where Airflow looks for what its processes are to do otherwise.
EXTENSIONS = {
    "config/airflow_local_settings.py": "from braid.infra.airflow.one_writer import create_metadata_engine\n",
    "plugins/one_writer.py": (
        "from airflow.plugins_manager import AirflowPlugin\n"
        "from braid.infra.airflow.one_writer import OneWriter\n"
        "class Plugin(AirflowPlugin):\n"
        '    name = "braid: one writer at a time"\n'
        '    fastapi_root_middlewares = [{"name": name, "middleware": OneWriter}]\n'
    ),
}


@dataclass(frozen=True)
class LocalAirflow(Service):
    """Where one local Airflow lives. A shell that uses the same AIRFLOW_HOME has no mark, and is nobody of ours."""

    title = "Airflow"
    mark = "AIRFLOW_OF_BRAID"
    # A task that is ended tells the API so, and is tried again after the next start.
    ends_last = "api-server"

    def leads(self, process: psutil.Process) -> bool:
        """Shells of tasks lead a session too, but are no Python."""
        return bool(process.exe() == psutil.Process().exe())

    @property
    def config(self) -> Path:
        return self.folder / "airflow.cfg"

    @property
    def passwords(self) -> Path:
        return self.folder / "passwords.json"

    @property
    def program(self) -> Path:
        return self.folder / "braid"

    @property
    def port(self) -> int:
        """The port of the last start."""
        return int(self._written().get("api", "port", fallback=str(DEFAULT_PORT)))

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def dags(self) -> Path:
        """The folder of DAGs of the last start."""
        return Path(self._written().get("core", "dags_folder", fallback=str(DAGS)))

    @property
    def password(self) -> str | None:
        try:
            return str(json.loads(self.passwords.read_text())[USER])
        except FileNotFoundError:
            return None

    def secret(self, section: str, option: str, fresh: str) -> str:
        """The secret that is in use; otherwise the fresh one."""
        return self._written().get(section, option, fallback=fresh)

    def _written(self) -> configparser.RawConfigParser:
        written = configparser.RawConfigParser()
        written.read(self.config)
        return written


def local_airflow(settings: Settings) -> LocalAirflow:
    return LocalAirflow(settings.local_home() / "airflow")


def prepare(airflow: LocalAirflow, dags: Path, port: int, working_folder: Path) -> bool:
    """Writes what Airflow reads when it starts; whether a password was made, which is shown once."""
    if not any(dags.glob("*.py")):
        raise BraidError(f"there are no DAGs in {dags}: name the folder that holds them with --dags.")
    airflow.folder.mkdir(parents=True, exist_ok=True)
    # It holds a password, keys and logs.
    airflow.folder.chmod(0o700)
    _write(airflow.config, configuration(airflow, dags, port), 0o600)
    _write(airflow.program, program(airflow, working_folder), 0o700)
    for name, text in EXTENSIONS.items():
        (airflow.folder / name).parent.mkdir(exist_ok=True)
        _write(airflow.folder / name, text, 0o600)
    if airflow.password is not None:
        return False
    _write(airflow.passwords, json.dumps({USER: secrets.token_urlsafe(12)}), 0o600)
    return True


def configuration(airflow: LocalAirflow, dags: Path, port: int) -> str:
    """Airflow's configuration where it differs from the default; secrets stay what they were."""
    address = f"http://{HOST}:{port}"
    fernet_key = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    options: dict[str, dict[str, object]] = {
        "core": {
            "dags_folder": dags,
            "load_examples": False,
            "executor": "LocalExecutor",
            "parallelism": PARALLELISM,
            "fernet_key": airflow.secret("core", "fernet_key", fernet_key),
            "simple_auth_manager_users": f"{USER}:admin",
            "simple_auth_manager_passwords_file": airflow.passwords,
            "execution_api_server_url": f"{address}/execution/",
        },
        "database": {"sql_alchemy_conn": f"sqlite:///{airflow.folder}/airflow.db?timeout=60"},
        "logging": {"base_log_folder": airflow.folder / "logs"},
        "api": {
            "host": HOST,
            "port": port,
            "base_url": address,
            "secret_key": airflow.secret("api", "secret_key", secrets.token_urlsafe(32)),
        },
        "api_auth": {"jwt_secret": airflow.secret("api_auth", "jwt_secret", secrets.token_urlsafe(64))},
        "dag_processor": {"parsing_processes": 1},
    }
    return "\n".join(
        f"[{section}]\n" + "".join(f"{name} = {_escaped(value)}\n" for name, value in values.items())
        for section, values in options.items()
    )


def program(airflow: LocalAirflow, working_folder: Path) -> str:
    """A task starts in a folder of its own: this brings it to where braid.toml and relative paths are meant."""
    braid = Path(sys.executable).with_name("braid")
    return (
        "#!/bin/sh\n"
        "# Written by `braid airflow up`: what each task runs as $BRAID.\n"
        f"export {airflow.mark}={shlex.quote(airflow.marked('task'))}\n"
        f'cd {shlex.quote(str(working_folder))} && exec {shlex.quote(str(braid))} "$@"\n'
    )


def _escaped(value: object) -> str:
    return str(value).replace("%", "%%")


def _write(path: Path, text: str, mode: int) -> None:
    """With its mode from the first byte on."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
    draft.replace(path)
