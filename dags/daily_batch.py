"""Recomputes yesterday for every Lambda view: waits for the day's end and pins the cut, then computes and publishes."""

import pendulum
from airflow.sdk import DAG, CronDataIntervalTimetable, conf
from braid_tasks import DEFAULTS, POOL, PUBLISHED, QUICK, RUN, BraidCommand, BraidWait

DAY = "{{ data_interval_start | ds }}"

with DAG(
    "daily_batch",
    description="Recompute a day of every Lambda view from the log, up to one cut",
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    # Long before any data: a backfill creates no runs for days before it.
    start_date=pendulum.datetime(1970, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=conf.getint("braid", "max_active_runs", fallback=2),
    default_args=DEFAULTS,
    doc_md=__doc__,
    tags=["braid"],
) as dag:
    pin_cut = BraidWait(
        task_id="pin_cut",
        arguments='batch cut --day "$DAY" --run "$RUN"',
        env={"DAY": DAY, "RUN": RUN},
        timeout=24 * 60 * 60,
        execution_timeout=QUICK,
    )
    # Gates, all views, audits, the comparison with what was served, and the publish: Spark is started once for them.
    compute = BraidCommand(
        task_id="compute",
        arguments='batch run --day "$DAY" --cut "$CUT"',
        env={"DAY": DAY, "CUT": "{{ ti.xcom_pull(task_ids='pin_cut') }}"},
        pool=POOL,
        outlets=[PUBLISHED],
    )
    pin_cut >> compute
