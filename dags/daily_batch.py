"""Recomputes yesterday for every Lambda view: wait, pin the cut, check the input, recompute, compare, tidy up."""

import json

import pendulum
from airflow.providers.standard.sensors.bash import BashSensor
from airflow.sdk import DAG, CronDataIntervalTimetable, conf
from braid_tasks import BRAID, DEFAULTS, NOT_YET, POOL, PUBLISHED, QUICK, BraidAnswer, BraidCommand

DAY = "{{ data_interval_start | ds }}"
CUT = "{{ ti.xcom_pull(task_ids='pin_cut') }}"
RUN = "{{ dag.dag_id }}/{{ run_id }}"

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
    wait_for_cut = BashSensor(
        task_id="wait_for_cut",
        bash_command=f"{BRAID} batch cut --day {DAY}",
        retry_exit_code=NOT_YET,
        # Between two looks it holds no worker.
        mode="reschedule",
        poke_interval=60,
        timeout=24 * 60 * 60,
        execution_timeout=QUICK,
    )
    pin_cut = BraidAnswer(
        task_id="pin_cut", arguments=f"batch cut --day {DAY} --run '{RUN}'", execution_timeout=QUICK
    )
    gates = BraidCommand(task_id="gates", arguments=f"batch gate --day {DAY} --cut {CUT}", pool=POOL)
    views = BraidAnswer(
        task_id="views", arguments="batch views", output_processor=json.loads, execution_timeout=QUICK
    )
    recompute = BraidCommand.partial(
        task_id="recompute",
        arguments=f'batch run --view "$VIEW" --day {DAY} --cut {CUT}',
        map_index_template="{{ task.env['VIEW'] }}",
        pool=POOL,
    ).expand(env=views.output.map(lambda view: {"VIEW": view}))
    compare = BraidCommand(
        task_id="compare", arguments=f"compare --day {DAY} --cut {CUT}", pool=POOL, outlets=[PUBLISHED]
    )
    # Once is enough for all days of a backfill; it starts Spark only when it is due.
    maintain = BraidCommand(task_id="maintain", arguments="maintain --every 12h", pool=POOL)

    wait_for_cut >> pin_cut >> gates >> views >> recompute >> compare >> maintain
