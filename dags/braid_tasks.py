"""What all tasks have in common: each is one `braid` command, and a check that failed is not tried again."""

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import Asset, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

# The worker's own environment names the program, so that one set of DAGs serves every machine.
BRAID = '"${BRAID:-braid}"'
POOL = "spark"
CHECK_FAILED = 1
NOT_YET = 99

# Announced when days have been published and compared: other DAGs may be scheduled on it.
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


class BraidCommand(BashOperator):
    """One command. Exit code 1 is a verdict: the same command would give it again, so the task fails at once."""

    def __init__(self, *, arguments: str, **kwargs: Any) -> None:
        kwargs.setdefault("bash_command", f"{BRAID} {arguments}")
        # Airflow lets a task skip on an exit code, and has no such word for failing: `execute` translates.
        super().__init__(append_env=True, skip_on_exit_code=CHECK_FAILED, **kwargs)

    def execute(self, context: Context) -> Any:
        try:
            return super().execute(context)
        except AirflowSkipException:
            raise AirflowFailException(
                "the check did not hold: the lines above say why, and trying again would not change it"
            ) from None


class BraidAnswer(BraidCommand):
    """A command whose standard output is the task's result; what it says on standard error stays in the task's log."""

    def __init__(self, *, arguments: str, **kwargs: Any) -> None:
        # Airflow reads both as one stream and takes its last line, whichever that is.
        bash_command = f'answer=$({BRAID} {arguments}) && echo "$answer"'
        super().__init__(arguments=arguments, bash_command=bash_command, **kwargs)
