"""employees: numbers over all time, which move as files arrive."""

from braid.log.table import Log
from braid.tables.commits import newest_commit
from examples.employees import data, headcount
from examples.stage.checks import against_truth, equal
from examples.stage.shown import Played, Shown
from examples.stage.stage import Stage

FIRST, MORE, AGAIN = 120, 60, 15


def play(stage: Stage) -> Played:
    stage.set(headcount)
    first = data.people(0, FIRST, seed=1)
    # The second file repeats people of the first, as exports do.
    more = [*first[-AGAIN:], *data.people(FIRST, MORE, seed=2)]
    with stage.say(f"a file of {FIRST} people is dropped into the folder, and streamed"):
        stage.write("employees/2025-q1.csv", data.lines(first))
        stage.stream()
    before = stage.rows(headcount)
    with stage.say(f"a second one of {len(more)}, of whom {AGAIN} are known, and a line that is no employee"):
        stage.write("employees/2025-q2.csv", [*data.lines(more), data.NO_EMPLOYEE])
        stage.stream()
    after = stage.rows(headcount)
    written = newest_commit(Log(stage.views[headcount.name].source, stage.settings).table)
    checks = [
        against_truth("after the first file", headcount, before, data.truth(first)),
        *stage.three_ways({headcount.name: data.truth([*first, *more])}),
        equal("people who were in both files, counted once", written.duplicates if written else None, AGAIN),
        equal("lines in quarantine", stage.rejected(), {"broken rule": 1}),
    ]
    rows = tuple(
        (title, before[title,]["employees"], numbers["employees"] - before[title,]["employees"],
         numbers["employees"], numbers["payroll"], round(numbers["mean_salary"], 2))
        for (title,), numbers in sorted(after.items(), key=lambda one: -one[1]["employees"])
    )  # fmt: skip
    columns = ("title", "first file", "second file", "employees", "payroll", "mean salary")
    shown = Shown("employees by title, over all time", columns, rows, ("first file", "second file"))
    return Played((shown,), tuple(checks))
