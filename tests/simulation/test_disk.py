"""A simulated disk: each commit is atomic, and an older copy can be put back."""

from __future__ import annotations

from octoloom.core.device_effects import PendingEvent, Persist, Saved
from octoloom.simulation.disk import Disk


def event(sequencer: int, ticket: int = 0) -> PendingEvent:
    return PendingEvent(sequencer, "put", b"1", ticket, "ada")


def test_an_empty_disk_has_nothing() -> None:
    assert Disk().load() is None


def test_a_commit_is_what_is_loaded() -> None:
    disk = Disk()
    disk.commit(Persist(3, 7, 2, numbered=(event(2, ticket=5), event(1)), queued=(event(0, 9),), state=b'{"a":1}'))
    assert disk.load() == Saved(3, 7, 2, {"a": 1}, (event(1), event(2)), (event(0, 9),)), "tickets end with a life"


def test_removals_come_first_and_patches_go_on_top_of_the_state() -> None:
    disk = Disk()
    disk.commit(Persist(2, 1, 2, numbered=(event(1),), queued=(event(0, 9),), state=b'{"a":1,"b":2}'))
    disk.commit(Persist(3, 2, 2, removed=(1,), numbered=(event(2),), unqueued=(9,), patches=(b'{"a":9,"b":null}',)))
    assert disk.load() == Saved(3, 2, 2, {"a": 9}, (event(2),), ())
    disk.commit(Persist(3, 3, 2, removed=(2,), numbered=(event(2),), state=b'{"c":3}', patches=(b'{"d":4}',)))
    assert disk.load() == Saved(3, 3, 2, {"c": 3, "d": 4}, (event(2),), ())


def test_a_copy_stays_as_it_was_taken() -> None:
    disk = Disk()
    disk.commit(Persist(2, 1, 2, numbered=(event(1),), state=b'{"a":1}'))
    copy = disk.copy()
    before = copy.load()
    disk.commit(Persist(3, 2, 2, removed=(1,), numbered=(event(2),), queued=(event(0, 4),), patches=(b'{"a":2}',)))
    assert copy.load() == before
    assert disk.load() != before
