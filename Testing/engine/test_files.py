"""Test files: a file is written completely or not at all, and is identified by its SHA-256."""

import hashlib
import os

import pytest

from AnatomicalEmbedding.files import atomic_path, file_sha256, once_a_change


def test_atomic_path_keeps_the_old_file_on_failure(tmp_path):
    target = tmp_path / "new" / "a.nii.gz"
    with atomic_path(target) as temporary:
        assert temporary.name.endswith(".nii.gz")
        assert temporary.parent == target.parent
        temporary.write_text("one")
        assert not target.exists()

    def fail() -> None:
        with atomic_path(target) as temporary:
            temporary.write_text("two")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert target.read_text() == "one"
    assert list(target.parent.iterdir()) == [target]


def test_the_hash_is_that_of_the_bytes(tmp_path):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(b"one")
    assert file_sha256(path) == file_sha256(str(path)) == hashlib.sha256(b"one").hexdigest()


def test_what_was_read_of_a_file_follows_every_change_and_is_read_once_for_each(tmp_path):
    path = tmp_path / "weights.safetensors"
    times_read = 0

    @once_a_change
    def content(path):
        nonlocal times_read
        times_read += 1
        return path.read_bytes()

    for changed_ns, written in enumerate((b"one", b"two", b"longer"), start=1):
        path.write_bytes(written)
        os.utime(path, ns=(0, changed_ns))
        assert content(path) == content(str(path)) == written
        assert times_read == changed_ns


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    for read in (file_sha256, once_a_change(file_sha256)):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "gone")
