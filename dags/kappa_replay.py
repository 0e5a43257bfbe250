"""Replays a view's history into a new version, proves it equal, asks a person, and serves it."""

import pendulum
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param
from braid_tasks import DEFAULTS, POOL, BraidCommand

# As variables of the shell and never in its text: a person types them.
ASKED = {"VIEW": "{{ params.view }}", "FROM_DAY": "{{ params.from_day or '' }}"}

with DAG(
    "kappa_replay",
    description="Replay a view into a new version, compare, approve, promote",
    schedule=None,
    start_date=pendulum.datetime(2024, 1, 1, tz="UTC"),
    max_active_runs=1,
    default_args=DEFAULTS,
    params={
        "view": Param(type="string", pattern="^[A-Za-z_][A-Za-z0-9_]*$", description="the view's name"),
        "from_day": Param(
            None, type=["null", "string"], format="date", description="the first day; empty: all of the log"
        ),
    },
    doc_md=__doc__,
    tags=["braid"],
) as dag:
    replay = BraidCommand(
        task_id="replay",
        arguments='kappa replay "$VIEW" ${FROM_DAY:+--from "$FROM_DAY"}',
        env=ASKED,
        pool=POOL,
        # It reads all of the log, and resumes where it was if it is stopped.
        execution_timeout=None,
    )
    compare = BraidCommand(task_id="compare", arguments='kappa compare "$VIEW"', env=ASKED, pool=POOL)
    approve = ApprovalOperator(
        task_id="approve",
        subject="Serve the new version of {{ params.view }}?",
        body="It equals a recompute of the log at the same cut: the log of the task `compare` has the numbers. "
        "After a rejection the candidate stays beside the active version.",
        # However long the answer takes: it holds no worker.
        execution_timeout=None,
    )
    promote = BraidCommand(task_id="promote", arguments='kappa promote "$VIEW"', env=ASKED, pool=POOL)
    replay >> compare >> approve >> promote
