"""The cache of open files: bounded, and the least used go first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from octoloom.storage.log_files import OpenFile
from octoloom.storage.log_index import SparseIndex
from octoloom.storage.reader_cache import Reader, ReaderCache


def test_the_least_used_go_first_and_their_files_close(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    cache = ReaderCache(readers_max=2)
    fds = {}
    for owner in "abc":
        reader = Reader(OpenFile(str(tmp_path / "x")), SparseIndex(1))
        fds[owner] = reader.file.fd
        cache.put(owner, reader)
        if owner == "b":
            assert cache.get("a") is not None
    del reader
    assert [cache.get(owner) is not None for owner in "abc"] == [True, False, True]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fds["b"])
    cache.drop("a")
    cache.drop("nobody")
    assert len(cache) == 1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fds["a"])
