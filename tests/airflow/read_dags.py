"""Prints what Airflow reads in a folder of DAGs, as JSON; a process of its own: Airflow is configured at import."""

import json
import sys
from pathlib import Path
from typing import Any

from airflow.dag_processing.dagbag import BundleDagBag

OF_BRAID = {"braid", "batch_layer", "speed_layer", "serving_layer", "infra", "examples"}


def task(one: Any) -> dict[str, Any]:
    # What a mapped task will be made of is in these, under the same names.
    given = getattr(one, "partial_kwargs", None) or vars(one)
    command = given.get("bash_command") or given.get("arguments")
    return {
        "kind": one.task_type,
        "command": command,
        "env": given.get("env"),
        "upstream": sorted(one.upstream_task_ids),
        "pool": one.pool,
        "retries": one.retries,
        "backoff": one.retry_exponential_backoff,
        "timeout": one.execution_timeout and one.execution_timeout.total_seconds(),
        "mode": given.get("mode"),
        "retry_exit_code": given.get("retry_exit_code"),
        "outlets": [asset.name for asset in one.outlets],
        "mapped": one.is_mapped,
    }


folder = Path(sys.argv[1])
bag = BundleDagBag(folder, bundle_path=folder, bundle_name="dags-folder")
dags = {
    name: {
        "schedule": type(dag.timetable).__name__,
        "catchup": dag.catchup,
        "max_active_runs": dag.max_active_runs,
        "params": {key: param.schema for key, param in dag.params.items()} if dag.params else {},
        "tasks": {one.task_id: task(one) for one in dag.tasks},
    }
    for name, dag in bag.dags.items()
}
found = {"errors": bag.import_errors, "dags": dags, "of_braid": sorted(OF_BRAID & set(sys.modules))}
print("\n" + json.dumps(found, default=str))
