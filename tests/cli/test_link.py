"""What can be said to `octoloom link` about a journal."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from octoloom.cli import octoloom

LINK = ["link", "--name", "one", "--register", "127.0.0.1:1"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--durability", "journal"], "say with --journal where its brokers are"),
        (["--durability", "none"], "'chain', 'journal'"),
        (["--journal", "nonsense"], "nonsense"),
        (["--journal", ","], "no broker is named"),
    ],
)
def test_what_makes_no_sense_is_an_error_that_names_the_next_step(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(octoloom, [*LINK, *arguments])
    assert result.exit_code == 2
    assert says in result.output + str(result.exception)
