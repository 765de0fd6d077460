"""What users say about offsets, as JSON and as times, and what it means."""

from __future__ import annotations

import json

import pytest

from octoloom.core.errors import UsageError
from octoloom.spark.offsets import Edge, by_partition, edge_of, places_of, resolve, restored, saved, shown
from octoloom.wire.kafka.client_messages import EARLIEST, LATEST
from tests.spark.memory_origin import MemoryOrigin

PLACES = [("chat", 0), ("moves", 0), ("moves", 1)]
ORIGIN = MemoryOrigin({("chat", 0): (0, 0), ("moves", 0): (5, 40), ("moves", 1): (0, 20)})


def test_a_checkpoint_holds_what_kafka_s_source_would_hold() -> None:
    offsets = {("moves", 10): 7, ("moves", 2): 5, ("chat", 0): 0}
    text = json.dumps(saved(offsets))
    assert text == '{"chat": {"0": 0}, "moves": {"2": 5, "10": 7}}'
    assert restored(json.loads(text)) == offsets
    # Spark compares offsets as text, so the same ones are the same text.
    assert json.dumps(saved(restored(json.loads(text)))) == text


def test_words_and_json() -> None:
    assert edge_of("startingOffsets", " Earliest") == Edge("startingOffsets", everywhere=EARLIEST)
    assert edge_of("startingOffsets", "latest") == Edge("startingOffsets", everywhere=LATEST)
    assert edge_of("startingOffsets", '{"moves": {"0": -2, "1": 9}}').each == {("moves", 0): -2, ("moves", 1): 9}
    assert by_partition("x", '{"moves": {"0": 1}, "chat": {"1": 2}}') == {("moves", 0): 1, ("chat", 1): 2}
    assert places_of("assign", '{"moves": [1, "0", 1]}') == [("moves", 0), ("moves", 1)]


def test_ends_of_the_log() -> None:
    assert resolve(ORIGIN, Edge("x", everywhere=EARLIEST), PLACES) == {PLACES[0]: 0, PLACES[1]: 5, PLACES[2]: 0}
    assert resolve(ORIGIN, Edge("x", everywhere=LATEST), PLACES) == {PLACES[0]: 0, PLACES[1]: 40, PLACES[2]: 20}


def test_each_partition_has_its_own() -> None:
    each = {("moves", 0): 12, ("moves", 1): LATEST, ("chat", 0): EARLIEST}
    assert resolve(ORIGIN, Edge("x", each=each), PLACES) == {PLACES[0]: 0, PLACES[1]: 12, PLACES[2]: 20}


def test_every_partition_has_to_be_named_and_no_other() -> None:
    with pytest.raises(UsageError, match="startingOffsets says nothing about chat-0, moves-1: name every partition"):
        resolve(ORIGIN, Edge("startingOffsets", each={("moves", 0): 1}), PLACES)
    each = {("moves", 0): 1, ("moves", 7): 1}
    with pytest.raises(UsageError, match="startingOffsets names moves-7, which is not read"):
        resolve(ORIGIN, Edge("startingOffsets", each=each), [("moves", 0)])


def test_times() -> None:
    places = PLACES[1:]
    assert resolve(ORIGIN, Edge("x", "timestamp", everywhere=101), places) == {places[0]: 11, places[1]: 11}
    each = {places[0]: 0, places[1]: 195}
    with pytest.raises(UsageError, match=r"later than all records of moves-1: choose an earlier time"):
        resolve(ORIGIN, Edge("x", "timestamp", each=each, late="error"), places)
    assert resolve(ORIGIN, Edge("x", "timestamp", each=each), places) == {places[0]: 5, places[1]: 20}


def test_an_error_names_a_few_partitions() -> None:
    assert shown([("a", number) for number in range(7)]) == "a-0, a-1, a-2, a-3, a-4 and 2 more"


@pytest.mark.parametrize("number", ["true", "1.0", '"1"', "null", "-3"])
def test_an_offset_is_a_whole_number(number: str) -> None:
    with pytest.raises(UsageError, match="write a whole number"):
        edge_of("startingOffsets", f'{{"moves": {{"0": {number}}}}}')
