"""Files of people who were hired; a second one repeats some of them, and has a line that is no employee."""

import random
from datetime import UTC, datetime
from decimal import Decimal

from examples.stage.naive import Answer, Event, all_time, answer, average, total

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


def truth(events: list[Event]) -> Answer:
    once = {event["id"]: event for event in events}.values()
    measures = {"employees": len, "payroll": total("salary"), "mean_salary": average("salary")}
    return answer(once, ["title"], all_time, measures)
