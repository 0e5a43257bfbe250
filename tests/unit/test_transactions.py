"""A table's newest commit is found without listing its log, wherever its last checkpoint is."""

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.runtime import documents
from braid.tables.delta_log import (
    NewFile,
    Transaction,
    newest_version,
    parse,
)


class Files:
    """Stands for a folder of commits, of which the oldest may be gone, and counts how often it is asked."""

    def __init__(self, first: int, newest: int, checkpoint: int | None) -> None:
        self.first, self.newest, self.checkpoint, self.asked = first, newest, checkpoint, 0

    def exists(self, file: str) -> bool:
        self.asked += 1
        name = file.rsplit("/", 1)[1]
        if name == "_last_checkpoint":
            return self.checkpoint is not None
        return self.first <= int(name.removesuffix(".json")) <= self.newest

    def read(self, file: str) -> str | None:
        return None if self.checkpoint is None else f'{{"version": {self.checkpoint}, "size": 7}}'

    def found(self) -> int | None:
        with mock.patch.multiple(documents, exists=self.exists, read=self.read):
            return newest_version("table")


@given(st.integers(0, 100_000), st.integers(0, 300), st.booleans())
def test_the_newest_is_found_from_the_last_checkpoint_on(checkpoint: int, since: int, trimmed: bool) -> None:
    files = Files(checkpoint if trimmed else 0, checkpoint + since, checkpoint)
    assert files.found() == checkpoint + since
    assert files.asked <= 25


@given(st.integers(0, 300))
def test_without_a_checkpoint_it_is_found_from_the_first(newest: int) -> None:
    assert Files(0, newest, None).found() == newest


def test_where_there_is_no_table_there_is_no_version() -> None:
    assert Files(0, -1, None).found() is None


ADDED = '{"add": {"path": "day=2024-03-10/a%20b", "size": 9, "partitionValues": {}, "dataChange": true}}'
REWRITTEN = ADDED.replace("true", "false")
REMOVED = ADDED.replace("add", "remove")


def transaction_of(*lines: str) -> Transaction:
    return parse(3, "\n".join(lines))


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        (
            [
                '{"commitInfo": {"operationMetrics": {"numOutputRows": "7"}}}',
                ADDED,
            ],
            7,
        ),
        (['{"commitInfo": {"operationMetrics": {"numOutputRows": "0"}}}'], 0),
        (['{"commitInfo": {}}'], 0),
        (['{"commitInfo": {}}', ADDED], None),
        (
            [
                '{"commitInfo": {"operationMetrics": {"numOutputRows": "0"}}}',
                ADDED,
            ],
            None,
        ),
    ],
)
def test_only_a_commit_without_files_is_known_to_have_no_rows(lines: list[str], rows: int | None) -> None:
    assert transaction_of(*lines).rows == rows


def test_a_rewrite_brings_no_new_file_and_takes_no_rows() -> None:
    assert transaction_of(ADDED).new == (NewFile("day=2024-03-10/a b", 9),)
    rewrite = transaction_of(REWRITTEN, REMOVED.replace("true", "false"))
    assert (rewrite.new, rewrite.takes_rows) == ((), False)
    assert transaction_of(REMOVED).takes_rows
