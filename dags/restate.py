"""Recomputes the days that were published and have gained events since, every hour."""

import pendulum
from airflow.sdk import DAG, CronTriggerTimetable
from braid_tasks import DEFAULTS, POOL, PUBLISHED, QUICK, RUN, BraidAnswer, BraidCommand

with DAG(
    "restate",
    description="Recompute the days that late events have made stale",
    schedule=CronTriggerTimetable("15 * * * *", timezone="UTC"),
    start_date=pendulum.datetime(2024, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULTS,
    doc_md=__doc__,
    tags=["braid"],
) as dag:
    pin_cut = BraidAnswer(
        task_id="pin_cut",
        arguments='batch cut --run "$RUN"',
        env={"RUN": RUN},
        execution_timeout=QUICK,
    )
    restate = BraidCommand(
        task_id="restate",
        arguments='batch run --stale --cut "$CUT"',
        env={"CUT": "{{ ti.xcom_pull(task_ids='pin_cut') }}"},
        pool=POOL,
        outlets=[PUBLISHED],
    )
    pin_cut >> restate
