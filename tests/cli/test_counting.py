"""A count for people, and silence for pipes."""

from __future__ import annotations

import io
import sys

import pytest

from octoloom.cli import counting
from octoloom.cli.counting import Counting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "BEGIN_S", -1.0)
    monkeypatch.setattr(counting, "EVERY_S", -1.0)


@pytest.mark.usefixtures("_at_once")
def test_a_person_sees_the_count_and_then_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    count = Counting("records")
    count.add(1000)
    count.add(234)
    assert "1,234 records" in screen.getvalue()
    count.stop()
    assert screen.getvalue().endswith("\r\x1b[K")


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize(("out", "err"), [(Terminal(), Terminal()), (io.StringIO(), io.StringIO())])
def test_nothing_is_said_in_a_pipe_or_between_the_records(
    monkeypatch: pytest.MonkeyPatch, out: io.StringIO, err: io.StringIO
) -> None:
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    count = Counting("records")
    count.add(5)
    count.stop()
    assert err.getvalue() == out.getvalue() == ""


def test_what_is_quick_is_not_counted_aloud(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    count = Counting("records")
    count.add(5)
    count.stop()
    assert screen.getvalue() == ""
