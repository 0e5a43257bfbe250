"""Recomputes a range of days when somebody asks for it: many days in one task, for histories of months and years."""

import json

import pendulum
from airflow.sdk import DAG, Param
from braid_tasks import DEFAULTS, POOL, PUBLISHED, QUICK, RUN, BraidAnswer, BraidCommand

NAME = "^[A-Za-z_][A-Za-z0-9_]*$"

with DAG(
    "backfill_range",
    description="Recompute a range of days, chunk by chunk, up to one cut",
    schedule=None,
    start_date=pendulum.datetime(2024, 1, 1, tz="UTC"),
    max_active_runs=1,
    default_args=DEFAULTS,
    params={
        "from_day": Param(type="string", format="date", description="the first day"),
        "to_day": Param(type="string", format="date", description="the last day, which is in it"),
        "views": Param(
            [],
            type="array",
            items={"type": "string", "pattern": NAME},
            description="names of views; empty: all Lambda views",
        ),
        "chunk": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            description="at most so many days in a task; empty: as many as have a few million events",
        ),
    },
    doc_md=__doc__,
    tags=["braid"],
) as dag:
    # Once for the run: a chunk that is cleared or tried again has the same days and the same cut.
    chunks = BraidAnswer(
        task_id="chunks",
        arguments='batch chunks --from "$FROM" --to "$TO" --run "$RUN" ${CHUNK:+--days "$CHUNK"}'
        " ${VIEWS:+--view ${VIEWS// / --view }}",
        env={
            "FROM": "{{ params.from_day }}",
            "TO": "{{ params.to_day }}",
            "CHUNK": "{{ params.chunk or '' }}",
            "VIEWS": "{{ params.views | join(' ') }}",
            "RUN": RUN,
        },
        output_processor=json.loads,
        execution_timeout=QUICK,
    )
    # Days that are up to date are left as they are: after a failure, what is cleared goes on where it was.
    BraidCommand.partial(
        task_id="compute",
        arguments='batch run --from "$FROM" --to "$TO" --cut "$CUT" ${VIEWS:+--view ${VIEWS// / --view }}',
        map_index_template="{{ task.env['FROM'] }} to {{ task.env['TO'] }}",
        pool=POOL,
        outlets=[PUBLISHED],
    ).expand(env=chunks.output)
