"""The places of a log's records, without Spark: how many there are, which are missing, and which are there twice."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from braid.define.schema import double_quoted
from braid.log.database import Place
from braid.log.table import INBOX_PARTITION

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Hole = tuple[int, int, int]  # partition, first, last
Consumed = dict[int, tuple[int, int]]  # partition -> from (inclusive), to (exclusive)

# Where neighbouring places of a partition are not one apart. Fences stand before and behind what was consumed.
STEPS = """
    WITH placed AS (
        SELECT _partition, _offset, false AS fence FROM log
        UNION ALL SELECT * FROM fences
    ), ordered AS (
        SELECT *, lag(_offset) OVER before AS last, lag(fence) OVER before AS last_fence
        FROM placed WINDOW before AS (PARTITION BY _partition ORDER BY _offset, fence)
    )
    SELECT _partition, last, _offset FROM ordered
    WHERE (_offset > last + 1 AND {has_holes}) OR (_offset = last AND NOT fence AND NOT last_fence)
    ORDER BY 1, 3
"""
COUNTS = """
    SELECT _partition, count(*) FILTER (_error IS NULL), count(*) FILTER (_error IS NOT NULL) FROM log GROUP BY 1
"""


def counts(database: "DuckDBPyConnection") -> dict[int, tuple[int, int]]:
    """Partition -> how many of its records are accepted, and rejected."""
    return {partition: (good, bad) for partition, good, bad in database.sql(COUNTS).fetchall()}


def holes_and_repeats(
    database: "DuckDBPyConnection", consumed: Consumed | None, most: int
) -> tuple[list[Hole], frozenset[Place]]:
    """Consumed places that the log lacks, and places that are in it more than once (not more than `most`).

    None consumed: the lines of files, which are not looked for here, as blank ones are no records.
    """
    database.execute("CREATE OR REPLACE TABLE fences (_partition BIGINT, _offset BIGINT, fence BOOLEAN)")
    fences = [(p, fence, True) for p, (start, end) in (consumed or {}).items() for fence in (start - 1, end)]
    if fences:
        database.executemany("INSERT INTO fences VALUES ($1, $2, $3)", fences)
    holes: list[Hole] = []
    repeats: set[Place] = set()
    has_holes = "false" if consumed is None else f"_partition <> {INBOX_PARTITION}"
    for partition, last, offset in _fetched(database.execute(STEPS.format(has_holes=has_holes))):
        if offset > last:
            holes.append((partition, last + 1, offset - 1))
        elif len(repeats) < most:
            repeats.add((partition, offset))
    return holes, frozenset(repeats)


def outside(database: "DuckDBPyConnection", consumed: Consumed, most: int) -> frozenset[Place]:
    """Places in the log that were never consumed."""
    inside = [
        f"(_partition = {p} AND _offset >= {start} AND _offset < {end})"
        for p, (start, end) in consumed.items()
    ]
    query = f"""
        SELECT _partition, _offset FROM log
        WHERE _partition <> {INBOX_PARTITION} AND NOT ({" OR ".join(inside) or "false"}) LIMIT {most}
    """
    return frozenset(database.sql(query).fetchall())


def lacking(database: "DuckDBPyConnection", lines: Iterable[tuple[int, list[int]]]) -> Iterator[Place]:
    """Of these places, which come as some lines of a file at a time, the ones that the log does not hold."""
    database.execute("CREATE OR REPLACE TABLE lines (_partition BIGINT, _offset BIGINT)")
    for number, some in lines:
        database.execute("INSERT INTO lines SELECT $1, unnest($2::BIGINT[])", [number, some])
    query = "SELECT _partition, _offset FROM lines ANTI JOIN log USING (_partition, _offset)"
    yield from _fetched(database.execute(query))


def accepted_twins(
    database: "DuckDBPyConnection", identity: str, columns: tuple[str, ...], ids: list[Any]
) -> dict[Any, set[tuple[Any, ...]]]:
    """Id -> what its accepted rows have in these columns, for those of the ids that the log holds."""
    if not ids:
        return {}
    column = double_quoted(identity)
    database.execute("CREATE OR REPLACE TABLE wanted AS SELECT unnest($1) AS _id", [sorted(set(ids))])
    shown = ", ".join(["_id", *map(double_quoted, columns)])
    query = f"SELECT DISTINCT {shown} FROM log JOIN wanted ON {column} = _id WHERE _error IS NULL"
    twins: dict[Any, set[tuple[Any, ...]]] = {}
    for found, *values in _fetched(database.execute(query)):
        twins.setdefault(found, set()).add(tuple(map(hashable, values)))
    return twins


def _fetched(result: "DuckDBPyConnection") -> Iterator[tuple[Any, ...]]:
    while rows := result.fetchmany(10_000):
        yield from rows


def hashable(value: Any) -> Any:
    """A value of a column as one of a set."""
    return tuple(value) if isinstance(value, list) else value
