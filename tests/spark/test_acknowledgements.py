"""Files of acknowledgements."""

from __future__ import annotations

from pathlib import Path

import pytest

from octoloom.core.acknowledged import Settled, Written
from octoloom.core.errors import UsageError
from octoloom.spark.acknowledgements import read_acknowledgements


def test_both_kinds_may_stand_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "told.jsonl"
    path.write_text(
        '{"topic": "moves", "partition": 3, "offset": 12, "key": "ada", "timestamp": 7}\n'
        "\n"
        '{"space": "lobby", "device": "ada", "sequencer": 5, "outcome": "applied", "version": 97}\n'
        '{"topic": "moves", "partition": 3, "offset": 13}\n'
    )
    told = read_acknowledgements([path])
    assert len(told) == 3
    assert told.written == {("moves", 3): [Written("moves", 3, 12, "ada"), Written("moves", 3, 13)]}
    assert told.settled == {"lobby": [Settled("lobby", "ada", 5, "applied", 97)]}


@pytest.mark.parametrize("line", ["oops", "{}", '{"topic": "moves"}', '{"space": "lobby", "device": 1}', "[]"])
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "told.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(UsageError, match=r"told\.jsonl, line 1: this is no acknowledgement"):
        read_acknowledgements([path])


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_acknowledgements([tmp_path / "nothing"])
