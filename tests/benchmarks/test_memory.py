"""Memory that a benchmark holds between runs."""

from __future__ import annotations

import mmap

import psutil
import pytest

from memory import _POPULATE, Memory

SIZE = 64 * 1024 * 1024


def can_populate() -> bool:
    with mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as page:
        try:
            page.madvise(_POPULATE)
        except OSError:
            return False
        return True


def test_what_is_held_is_there_and_what_is_let_go_is_free() -> None:
    if not can_populate():
        pytest.skip("this kernel cannot be asked for memory that is there")
    sizes = [psutil.Process().memory_info().rss]
    memory = Memory(SIZE)
    for change in (memory.hold, memory.hold, memory.let_go, memory.let_go):
        change()
        sizes.append(psutil.Process().memory_info().rss)
    grown = [round((size - sizes[0]) / SIZE, 1) for size in sizes]
    assert grown == pytest.approx([0, 1, 1, 0, 0], abs=0.15)
