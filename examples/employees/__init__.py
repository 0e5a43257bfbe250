"""CSV files that are dropped into a folder: how many people have each job title, and what do they earn?"""

from braid import Source, View, all_time, count, mean, sum_

employees = Source(
    name="employees",
    files="employees/*.csv",
    format="csv",
    schema="id string, hired timestamp, name string, title string, salary decimal(10,2)",
    event_time="hired",
    event_id="id",
    rules={"a salary is paid": "salary > 0"},
)

# One window without an end: the numbers move whenever a file comes.
headcount = View(
    name="headcount",
    source=employees,
    keys=("title",),
    window=all_time(),
    measures={"employees": count(), "payroll": sum_("salary"), "mean_salary": mean("salary")},
)
