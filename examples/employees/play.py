"""employees: numbers over all time, which move as files arrive.

Files of people who were hired; a second one repeats some of them, and has a line that is no employee.
"""

import random
from datetime import UTC, datetime
from decimal import Decimal

from braid.examples.employees import headcount
from braid.examples.stage.checks import Played, Shown, against_truth, equal
from braid.examples.stage.naive import Answer, Event, all_time, answer, average, total
from braid.examples.stage.stage import Stage

FIRST, MORE, AGAIN = 120, 60, 15
# People begin on the first of a quarter.
DAYS = tuple(datetime(2025, month, 1, 8, tzinfo=UTC) for month in (1, 4, 7))
TITLES = {
    "Engineer": 5200,
    "Analyst": 4300,
    "Nurse": 3900,
    "Driver": 3100,
    "Head of Sales": 8800,
    "Cook": 2900,
}
NAMES = ("Ada", "Blaise", "Chien-Shiung", "Dorothy", "Edsger", "Fei-Fei", "Grace", "Hedy", "Ibn", "José")
HEADER = "id,hired,name,title,salary"
NO_EMPLOYEE = "e9999,2025-01-01T08:00:00Z,Nobody,Volunteer,0.00"


def people(first: int, number: int, seed: int) -> list[Event]:
    chance = random.Random(seed)
    titles = chance.choices(list(TITLES), weights=range(len(TITLES), 0, -1), k=number)
    return [
        {
            "id": f"e{first + n}",
            "time": chance.choice(DAYS),
            "name": chance.choice(NAMES),
            "title": title,
            "salary": Decimal(TITLES[title]) + Decimal(chance.randrange(-40_000, 40_000)).scaleb(-2),
        }
        for n, title in enumerate(titles)
    ]


def lines(events: list[Event]) -> list[str]:
    return [
        HEADER,
        *(f"{e['id']},{e['time']:%Y-%m-%dT%H:%M:%SZ},{e['name']},{e['title']},{e['salary']}" for e in events),
    ]


def true_rows(events: list[Event]) -> Answer:
    once = {event["id"]: event for event in events}.values()
    measures = {"employees": len, "payroll": total("salary"), "mean_salary": average("salary")}
    return answer(once, ["title"], all_time, measures)


def play(stage: Stage) -> Played:
    stage.set(headcount)
    first = people(0, FIRST, seed=1)
    # The second file repeats people of the first, as exports do.
    more = [*first[-AGAIN:], *people(FIRST, MORE, seed=2)]
    with stage.say(f"a file of {FIRST} people is dropped into the folder, and streamed"):
        stage.write("employees/2025-q1.csv", lines(first))
        stage.stream()
    before = stage.rows(headcount)
    with stage.say(f"a second one of {len(more)}, of whom {AGAIN} are known, and a line that is no employee"):
        stage.write("employees/2025-q2.csv", [*lines(more), NO_EMPLOYEE])
        stage.stream()
    after = stage.rows(headcount)
    checks = [
        against_truth("after the first file", headcount, before, true_rows(first)),
        *stage.three_ways({headcount.name: true_rows([*first, *more])}),
        equal("people who were in both files, counted once", stage.duplicates(), AGAIN),
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
