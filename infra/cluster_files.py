"""What a local Spark cluster keeps under BRAID_HOME: how it was asked to be, and Spark's own configuration for it."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from braid.errors import SettingsError
from braid.infra.services.service import HOST, Service
from braid.runtime.settings import Settings

MASTER = "master"


@dataclass(frozen=True)
class Choices:
    """What was asked for: so many workers, and what each may give to executors."""

    workers: int
    cores: int
    memory: str

    @property
    def parts(self) -> tuple[str, ...]:
        return MASTER, *(f"worker-{number}" for number in range(1, self.workers + 1))

    def __str__(self) -> str:
        return f"{self.workers} workers of {self.cores} cores and {self.memory}"


@dataclass(frozen=True)
class LocalCluster(Service):
    """Where one local cluster lives: a master, workers, and the executors that these start."""

    title = "the cluster"
    mark = "CLUSTER_OF_BRAID"
    # Workers end their executors first; and a master that is left alone ends at once.
    ends_last = MASTER

    port: int
    ui_port: int
    secret: str

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self.port}"

    @property
    def address(self) -> str:
        """Where the master shows itself."""
        return f"http://{HOST}:{self.ui_port}"

    @property
    def config(self) -> Path:
        return self.folder / "conf"

    @property
    def recovery(self) -> Path:
        return self.folder / "recovery"

    def work(self, part: str) -> Path:
        """The folder of a worker: what its executors say and spill."""
        return self.folder / part

    @property
    def choices(self) -> Choices | None:
        """What was asked for by the last start; none after a stop."""
        try:
            return Choices(**json.loads(self._choices.read_text()))
        except FileNotFoundError:
            return None

    @property
    def _choices(self) -> Path:
        return self.folder / "cluster.json"

    def prepare(self, choices: Choices) -> None:
        """Writes what its processes read. The secret is not among it: it is in their environment alone."""
        self.config.mkdir(parents=True, exist_ok=True)
        (self.config / "spark-defaults.conf").write_text(
            "".join(f"{key} {value}\n" for key, value in daemon_config(self).items())
        )
        self._choices.write_text(json.dumps(asdict(choices)))

    def forget(self) -> None:
        """After a stop there are no choices, and nothing for a new master to recover."""
        self._choices.unlink(missing_ok=True)
        shutil.rmtree(self.recovery, ignore_errors=True)


def local_cluster(settings: Settings) -> LocalCluster:
    """The cluster of these settings; refused where BRAID_SPARK_MASTER names a cluster that Braid does not run."""
    cluster = LocalCluster(
        settings.local_home() / "cluster",
        settings.cluster_port,
        settings.cluster_ui_port,
        settings.spark_secret.get_secret_value(),
    )
    if settings.spark_master.startswith("spark://") and settings.spark_master != cluster.master:
        raise SettingsError(
            f"BRAID_SPARK_MASTER={settings.spark_master} names a cluster that Braid does not run: unset it, or set it "
            f"to {cluster.master}, which is BRAID_CLUSTER_PORT's."
        )
    return cluster


def daemon_config(cluster: LocalCluster) -> dict[str, str]:
    """Spark's settings for master and workers; each one that departs from Spark's default has its reason beside it."""
    config = {
        # A master that is started again goes on with the applications that run: without, it would end their executors.
        "spark.deploy.recoveryMode": "FILESYSTEM",
        "spark.deploy.recoveryDirectory": str(cluster.recovery),
        # Nobody sends applications through the pages, or ends them there.
        "spark.master.rest.enabled": "false",
        "spark.ui.killEnabled": "false",
        # Every command is an application: what its executors left behind is deleted an hour later.
        "spark.worker.cleanup.enabled": "true",
        "spark.worker.cleanup.interval": "600",
        "spark.worker.cleanup.appDataTtl": "3600",
    }
    if cluster.secret:
        config |= {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
    return config
