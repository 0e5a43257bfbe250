"""Compacts the logs and removes files that nobody can need any more, every night."""

import pendulum
from airflow.sdk import DAG, CronTriggerTimetable
from braid_tasks import DEFAULTS, POOL, BraidCommand

with DAG(
    "maintain",
    description="Optimise and vacuum the tables",
    schedule=CronTriggerTimetable("30 3 * * *", timezone="UTC"),
    start_date=pendulum.datetime(2024, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULTS,
    doc_md=__doc__,
    tags=["braid"],
) as dag:
    BraidCommand(task_id="maintain", arguments="maintain", pool=POOL)
