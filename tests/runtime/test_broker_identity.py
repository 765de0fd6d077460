"""Who a broker is, over restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from octoloom.core.errors import StoreError, UsageError
from octoloom.runtime.broker_identity import Identity


def test_every_life_has_a_number_of_its_own_and_the_disk_keeps_its_name(tmp_path: Path) -> None:
    first = Identity(tmp_path, "b1")
    assert first.begin_life() == "b1#1"
    assert first.begin_life() == first.id == "b1#2"
    storage = first.storage
    first.close()
    second = Identity(tmp_path, "")
    assert (second.name, second.storage) == ("b1", storage)
    assert second.begin_life() == "b1#3"
    second.close()


def test_another_disk_has_another_name(tmp_path: Path) -> None:
    one, two = Identity(tmp_path / "1", "b"), Identity(tmp_path / "2", "b")
    assert one.storage != two.storage
    one.close()
    two.close()


def test_a_broker_without_a_name_is_given_one(tmp_path: Path) -> None:
    first = Identity(tmp_path, "")
    name = first.name
    assert name
    first.begin_life()
    first.close()
    again = Identity(tmp_path, "")
    assert again.name == name
    again.close()


def test_a_directory_belongs_to_one_process_and_one_name(tmp_path: Path) -> None:
    first = Identity(tmp_path, "b1")
    first.begin_life()
    with pytest.raises(UsageError, match="another broker uses"):
        Identity(tmp_path, "b1")
    first.close()
    with pytest.raises(UsageError, match="belongs to the broker b1"):
        Identity(tmp_path, "b2")
    Identity(tmp_path, "b1").close()


@pytest.mark.parametrize("name", ["a b", "a#1", "x" * 101, "a/b", "\0"])
def test_a_bad_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is no name"):
        Identity(tmp_path, name)


def test_a_damaged_identity_is_not_guessed(tmp_path: Path) -> None:
    first = Identity(tmp_path, "b1")
    first.begin_life()
    first.close()
    path = tmp_path / "identity"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(StoreError, match="is damaged"):
        Identity(tmp_path, "b1")


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot use"):
        Identity(tmp_path / "file" / "data", "b1")


def test_damage_is_remembered_until_the_register_has_heard_of_it(tmp_path: Path) -> None:
    identity = Identity(tmp_path, "b1")
    identity.begin_life()
    identity.note_damage([("moves", 0)])
    identity.note_damage([("moves", 1), ("moves", 0)])
    identity.close()
    again = Identity(tmp_path, "b1")
    assert again.damaged == [("moves", 0), ("moves", 1)]
    again.begin_life()
    again.forget_damage()
    again.close()
    heard = Identity(tmp_path, "b1")
    assert (heard.damaged, heard.id) == ([], "b1#2")
    heard.close()
