"""`braid produce` without a broker: what it prints, and how it answers bad input."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def produce(braid, home):
    def run(*arguments):
        return braid("produce", *arguments)

    return run


def test_a_run_into_a_file_reports_what_it_sent_and_writes_the_truth(produce, tmp_path: Path):
    out, truth = tmp_path / "out.jsonl", tmp_path / "truth.json"
    answer = produce("weblog", "--events", 500, "--malformed", 0.1, "--to", out, "--truth", truth, "--json")
    assert answer.code == 0, answer.err
    summary = json.loads(answer.out)
    expected = json.loads(truth.read_text())
    assert summary["sent"] == sum(summary["kinds"].values()) == expected["sent"] == 500
    assert expected["options"] | {"events": 500, "malformed": 0.1} == expected["options"]
    assert len(out.read_bytes().splitlines()) == 500


def test_people_get_sentences(produce, tmp_path: Path):
    answer = produce("--events", 10, "--to", tmp_path / "out.jsonl")
    assert answer.code == 0
    assert answer.out.startswith(f"10 records sent to {tmp_path / 'out.jsonl'} and acknowledged")


def test_the_types_are_those_of_the_source_that_reads_the_topic(produce, tmp_path: Path):
    (tmp_path / "a.csv").write_text("id,time,host,url,response\n1,807249601,5,/,200\n")
    out = tmp_path / "out.jsonl"
    assert produce("--csv", tmp_path / "a.csv", "--map", "status=response", "--to", out).code == 0
    assert json.loads(out.read_text()) == {
        "id": "1", "time": "1995-08-01T04:00:01Z", "host": "5", "url": "/", "status": 200,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["webblog"], "there is no scenario 'webblog'. Did you mean 'weblog'?"),
        (["--late", "1.5"], "--late 1.5 is not a share"),
        (["--start", "2999-01-01"], "reach into the future"),
        (["--rate", "-1"], "--rate -1.0 is not a rate"),
        (["--partitions", "0"], "--partitions 0 is not possible"),
        (["--csv", "nope.csv"], "nope.csv is not there"),
        (["--clf", "nope.clf"], "nope.clf is not there"),
        (["--clf", "a", "--csv", "b"], "--clf and --csv cannot be sent together"),
        (["--clf", "a", "--late", "0.2"], "--late means nothing for a replayed file"),
        (["--clf", "a", "--arrival", "x"], "--arrival means nothing for --clf"),
        (["weblog", "--map", "a=b"], "--map means nothing for a made-up scenario"),
        (["--source", "request"], "there is no source 'request'. Did you mean 'requests'?"),
        (["--truth", "/nowhere/truth.json"], "/nowhere/truth.json cannot be written"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(produce, arguments: list[str], message: str):
    answer = produce(*arguments)
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err
