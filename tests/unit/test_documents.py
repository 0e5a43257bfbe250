"""Documents are read and replaced whole, wherever they lie."""

import os
import threading
from pathlib import Path

import pytest

from braid.errors import BraidError
from braid.runtime import documents


def test_what_was_written_is_read(tmp_path: Path) -> None:
    uri = str(tmp_path / "new" / "folder" / "a.json")
    assert documents.read(uri) is None
    documents.write(uri, "first\r\n")
    documents.write(uri, "zweiter: ü\n")
    assert documents.read(uri) == "zweiter: ü\n"
    assert documents.read(f"file://{uri}") == "zweiter: ü\n"


def test_a_uri_of_this_machine_is_a_path(tmp_path: Path) -> None:
    documents.write(f"file://{tmp_path}/with%20space/a.json", "text")
    assert (tmp_path / "with space" / "a.json").read_text() == "text"
    assert documents.names(f"file://{tmp_path}") == ["with space"]


def test_a_folder_is_listed_without_what_is_hidden(tmp_path: Path) -> None:
    assert documents.names(str(tmp_path / "none")) == []
    for name in ("b", "a", ".a.draft"):
        (tmp_path / name).write_text("")
    (tmp_path / "c").mkdir()
    assert documents.names(str(tmp_path)) == ["a", "b", "c"]


def test_a_writer_that_fails_leaves_the_old_text_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "a.json")
    documents.write(uri, "old")

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BraidError, match=r"a\.json cannot be written: No space left.*BRAID_HOME"):
        documents.write(uri, "new")
    assert documents.read(uri) == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_reader_sees_the_old_text_or_the_new_one(tmp_path: Path) -> None:
    uri = str(tmp_path / "a.json")
    texts = ["a" * 200_000, "b" * 300_000]
    documents.write(uri, texts[0])

    def write() -> None:
        for n in range(100):
            documents.write(uri, texts[n % 2])

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        seen.add(documents.read(uri))
    for writer in writers:
        writer.join()
    assert seen <= set(texts)
    assert os.listdir(tmp_path) == ["a.json"]


def test_what_cannot_be_read_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(BraidError, match=f"{tmp_path} cannot be read: .*directory"):
        documents.read(str(tmp_path))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(BraidError, match="bytes cannot be read"):
        documents.read(str(tmp_path / "bytes"))


def test_a_storage_that_is_not_known_is_an_error_with_its_address() -> None:
    with pytest.raises(BraidError, match=r"nowhere://bucket/a\.json cannot be read: .*nowhere"):
        documents.read("nowhere://bucket/a.json")
    with pytest.raises(BraidError, match="nowhere://bucket cannot be listed"):
        documents.names("nowhere://bucket")
    with pytest.raises(BraidError, match=r"nowhere://bucket/a\.json cannot be written"):
        documents.write("nowhere://bucket/a.json", "text")


def test_a_folder_is_removed_with_all_that_is_in_it_and_one_that_is_not_there_is_as_good(
    tmp_path: Path,
) -> None:
    documents.write(str(tmp_path / "a" / "b" / "c.json"), "{}")
    documents.remove_folder(str(tmp_path / "a"))
    documents.remove_folder(str(tmp_path / "a"))
    assert not (tmp_path / "a").exists()


def test_a_document_is_there_until_it_is_removed(tmp_path: Path) -> None:
    uri = str(tmp_path / "a.json")
    assert not documents.exists(uri)
    assert documents.changed(uri) == ""
    documents.write(uri, "{}")
    assert documents.exists(uri)
    assert documents.changed(uri) == documents.changed(str(tmp_path)) != ""
    documents.remove(uri)
    documents.remove(uri)
    assert not documents.exists(uri)


def test_a_folder_is_made_and_moved_whole(tmp_path: Path) -> None:
    documents.make_folder(str(tmp_path / "old" / "deep"))
    documents.write(str(tmp_path / "old" / "deep" / "a.json"), "{}")
    documents.move_folder(str(tmp_path / "old"), str(tmp_path / "new"))
    assert documents.read(str(tmp_path / "new" / "deep" / "a.json")) == "{}"
    assert not documents.exists(str(tmp_path / "old"))
