"""What all tasks have in common: each is one `braid` command, and a check that failed is not tried again.

What a command is told beside its name is in variables of its shell (`env`) and never in the shell's text.
"""

import os
from datetime import timedelta
from functools import cached_property
from typing import Any

from airflow.providers.standard.hooks.subprocess import SubprocessHook, SubprocessResult
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.sensors.bash import BashSensor
from airflow.sdk import Asset, Context, PokeReturnValue
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

# The worker's own environment names the program, so that one set of DAGs serves every machine.
BRAID = '"${BRAID:-braid}"'
POOL = "spark"
CHECK_FAILED = 1
NOT_YET = 99

# Under this name a run's cut is recorded: cleared or tried again, it finds the same one.
RUN = "{{ dag.dag_id }}/{{ run_id }}"

# Announced when days have been published and compared with what was served: other DAGs may be scheduled on it.
PUBLISHED = Asset(name="braid_published", uri="braid://published")

DEFAULTS: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": 2,
    "max_retry_delay": timedelta(minutes=15),
    "execution_timeout": timedelta(hours=2),
    # A run that has begun is finished before the pool serves another: a backfill ends day by day.
    "weight_rule": "upstream",
}
# For commands that start no Spark.
QUICK = timedelta(minutes=10)


FINAL = "the check did not hold, and trying again would not change it"


class LastWords(SubprocessHook):
    """Keeps what a command said last: of a check that did not hold, which gate holds which view, and why."""

    said = ""

    def run_command(self, *given: Any, **named: Any) -> SubprocessResult:
        done = super().run_command(*given, **named)
        self.said = done.output
        return done


class BraidCommand(BashOperator):
    """One command. Exit code 1 is a verdict: the same command would give it again, so the task fails at once."""

    @cached_property
    def subprocess_hook(self) -> LastWords:
        return LastWords()

    def __init__(self, *, arguments: str, **kwargs: Any) -> None:
        kwargs.setdefault("bash_command", f"{BRAID} {arguments}")
        # Airflow lets a task skip on an exit code, and has no such word for failing: `execute` translates.
        super().__init__(append_env=True, skip_on_exit_code=CHECK_FAILED, **kwargs)

    def execute(self, context: Context) -> Any:
        self.env = (self.env or {}) | _lineage_parent(context)
        try:
            return super().execute(context)
        except AirflowSkipException:
            raise AirflowFailException(f"{FINAL}: {self.subprocess_hook.said}") from None


def _lineage_parent(context: Context) -> dict[str, str]:
    """The task's run as Airflow's provider of OpenLineage calls it, where that is installed: the parent of ours."""
    try:
        from airflow.providers.openlineage.plugins.macros import lineage_parent_id  # type: ignore[import-not-found]
    except ImportError:
        return {}
    return {"OPENLINEAGE_PARENT_ID": lineage_parent_id(context["ti"])}


class BraidAnswer(BraidCommand):
    """A command whose standard output is the task's result; what it says on standard error stays in the task's log."""

    def __init__(self, *, arguments: str, **kwargs: Any) -> None:
        super().__init__(arguments=arguments, bash_command=_answer(arguments), **kwargs)


class BraidWait(BashSensor):
    """Asks a command until it has an answer, which is the task's result; between two looks it holds no worker."""

    def __init__(self, *, arguments: str, **kwargs: Any) -> None:
        super().__init__(
            bash_command=_answer(arguments),
            retry_exit_code=NOT_YET,
            mode="reschedule",
            poke_interval=60,
            **kwargs,
        )

    def poke(self, context: Context) -> bool | PokeReturnValue:
        done = SubprocessHook().run_command(
            ["bash", "-c", self.bash_command], env=os.environ | (self.env or {})
        )
        if done.exit_code == NOT_YET:
            return False
        if done.exit_code == CHECK_FAILED:
            raise AirflowFailException(f"{FINAL}: {done.output}")
        if done.exit_code != 0:
            raise AirflowException(
                f"the command ended with exit code {done.exit_code}: the lines above say why"
            )
        return PokeReturnValue(True, done.output)


def _answer(arguments: str) -> str:
    """Airflow reads both outputs as one stream and takes its last line, whichever that is: the answer is said last."""
    return f'answer=$({BRAID} {arguments}) && echo "$answer"'
