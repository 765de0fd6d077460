"""Findings: counted, and a few kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import octoloom.core
from octoloom.core.findings import KEPT_MAX, MEANINGS, TEXT_MAX, Finding, Findings


def test_all_are_counted_and_the_first_are_kept() -> None:
    findings = Findings("hall")
    for number in range(KEPT_MAX + 30):
        findings.add("digest-differs", f"number {number}", version=number)
    assert len(findings) == findings.counts["digest-differs"] == KEPT_MAX + 30
    assert [each.version for each in findings.kept] == list(range(KEPT_MAX))


def test_one_of_each_kind_is_kept_however_many_there_are_of_another() -> None:
    findings = Findings("hall")
    for _ in range(KEPT_MAX + 1):
        findings.add("digest-differs", "")
    findings.add("settled-twice", "x" * 1000)
    assert findings.kept[-1].name == "settled-twice"
    assert len(findings.kept[-1].text) == TEXT_MAX


def test_a_finding_without_a_meaning_is_a_mistake() -> None:
    with pytest.raises(AssertionError):
        Findings("hall").add("something", "")


def test_a_place_reads_well() -> None:
    finding = Finding("settled-twice", "hall", "", 2, 97, "ada", 5, 3, 1204)
    assert finding.place == "generation 2, version 97, ada:5, partition 3, offset 1204"
    assert Finding("no-trace", "room", "").place == ""


def test_every_name_is_used_somewhere() -> None:
    folder = Path(octoloom.core.__file__).parent
    texts = [path.read_text() for path in [*folder.glob("*.py"), *(folder.parent / "spark").glob("*.py")]]
    used = {name for text in texts for name in re.findall(r'"([a-z]+(?:-[a-z]+)+|unreadable)"(?!:)', text)}
    assert [name for name in MEANINGS if name not in used] == []
