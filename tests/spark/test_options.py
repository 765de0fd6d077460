"""Options are read once, and what is wrong with them is said with what to do about it."""

from __future__ import annotations

import pytest

from octoloom.core.errors import UsageError
from octoloom.spark.offsets import Edge
from octoloom.spark.options import COLUMNS, SOURCE_OPTIONS, Subscription, source_options

HERE = {"bootstrap": "127.0.0.1:9092", "topic": "moves"}


def test_the_least_is_a_place_and_a_topic() -> None:
    found = source_options(HERE)
    assert (found.bootstrap, found.subscription) == ("127.0.0.1:9092", Subscription(names=("moves",)))
    assert (found.columns, found.fails_on_data_loss, found.partitions_min) == (COLUMNS, True, None)
    batch, stream = found.for_batch(), found.for_stream()
    assert batch.starting == Edge("startingOffsets", everywhere=-2)
    assert batch.ending == Edge("endingOffsets", everywhere=-1)
    assert stream.starting == Edge("startingOffsets", everywhere=-1)


def test_names_of_kafka_s_source_are_understood_in_any_case() -> None:
    found = source_options(
        {
            "Kafka.Bootstrap.Servers": "a:1, b:2",
            "SUBSCRIBE": "moves, chat ,moves",
            "failondataloss": "False",
            "minPartitions": "8",
            "maxOffsetsPerTrigger": "1000",
            "includeHeaders": "false",
            "checkpointLocation": "x",
            "queryName": "q",
        }
    )
    assert found.bootstrap == "a:1,b:2"
    assert found.subscription.names == ("moves", "chat")
    assert (found.fails_on_data_loss, found.partitions_min, found.records_per_trigger_max) == (False, 8, 1000)
    assert found.columns == COLUMNS[:-1]


def test_columns_come_in_the_order_that_was_asked_for() -> None:
    assert source_options({**HERE, "columns": "offset, VALUE"}).columns == ("offset", "value")


def test_other_ways_to_say_what_is_read() -> None:
    where = {"bootstrap": "a:1"}
    assert source_options({**where, "subscribePattern": "moves-.*"}).subscription == Subscription(pattern="moves-.*")
    assigned = source_options({**where, "assign": '{"moves": [1, 0], "chat": [2]}'}).subscription
    assert assigned == Subscription(places=(("chat", 2), ("moves", 0), ("moves", 1)))


def test_other_ways_to_say_where_it_is() -> None:
    assert source_options({"topic": "moves", "path": "/data/b1, /data/b2"}).paths == ("/data/b1", "/data/b2")
    assert source_options({"topic": "moves", "paths": '["/data/b1", "/data/b2"]'}).paths == ("/data/b1", "/data/b2")
    assert source_options({"topic": "moves", "archive": "/archive"}).archive == "/archive"


def test_times_go_before_offsets() -> None:
    found = source_options(
        {
            **HERE,
            "startingOffsets": "earliest",
            "startingOffsetsByTimestamp": '{"moves": {"0": 5}}',
            "startingTimestamp": "1700000000000",
            "startingOffsetsByTimestampStrategy": "latest",
            "endingOffsets": '{"moves": {"0": 9}}',
            "endingOffsetsByTimestamp": '{"moves": {"0": 7}}',
        }
    )
    assert found.starting == Edge("startingTimestamp", "timestamp", everywhere=1_700_000_000_000, late="latest")
    assert found.ending == Edge("endingOffsetsByTimestamp", "timestamp", each={("moves", 0): 7})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**HERE, "failOnDataLos": "true"}, "no option failOnDataLos: did you mean failOnDataLoss?"),
        ({**HERE, "startingoffset": "latest"}, "did you mean startingOffsets?"),
        ({**HERE, "zzz": "1"}, f"no option zzz: it has {', '.join(SOURCE_OPTIONS)}"),
        ({**HERE, "kafka.security.protocol": "SSL"}, "without TLS"),
        ({**HERE, "kafka.max.poll.records": "5"}, "no option kafka.max.poll.records"),
        ({**HERE, "kafka.group.id": "g"}, "kept in the checkpoint"),
        ({**HERE, "minoffsetspertrigger": "5"}, "no option minOffsetsPerTrigger"),
        ({"topic": "moves"}, "set bootstrap"),
        ({"bootstrap": "a:1"}, "set topic, subscribePattern or assign"),
        ({**HERE, "bootstrap": "nowhere"}, "'nowhere' is not an address"),
        ({**HERE, "subscribe": "chat"}, "both topic and subscribe"),
        ({**HERE, "kafka.bootstrap.servers": "a:1"}, "both bootstrap and kafka.bootstrap.servers"),
        ({**HERE, "topic": " , "}, "topic names no topic"),
        ({"bootstrap": "a:1", "subscribePattern": "("}, "no regular expression"),
        ({"bootstrap": "a:1", "assign": '{"moves": 0}'}, 'write it as {"moves": [0, 1]}'),
        ({"bootstrap": "a:1", "assign": "moves"}, "assign cannot be read"),
        ({**HERE, "failOnDataLoss": "perhaps"}, "write true or false"),
        ({**HERE, "minPartitions": "0"}, "minPartitions is '0': write a whole number from 1"),
        ({**HERE, "maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger is 'many'"),
        ({**HERE, "startingOffsets": "begin"}, "startingOffsets cannot be read"),
        ({**HERE, "startingOffsets": "[]"}, "startingOffsets names no topic"),
        ({**HERE, "startingOffsets": '{"moves": 4}'}, "startingOffsets has 4 for moves"),
        ({**HERE, "startingOffsets": '{"moves": {"0": -3}}'}, "startingOffsets has -3 for moves-0"),
        ({**HERE, "startingOffsets": '{"moves": {"x": 3}}'}, "the partition 'x' for moves"),
        ({**HERE, "startingOffsetsByTimestamp": '{"moves": {"0": -1}}'}, "startingOffsetsByTimestamp has -1"),
        ({**HERE, "startingOffsetsByTimestampStrategy": "guess"}, "write error or latest"),
        ({**HERE, "endingOffsets": "earliest"}, "endingOffsets is earliest"),
        ({**HERE, "endingOffsets": '{"moves": {"0": -2}}'}, "endingOffsets is earliest"),
        ({**HERE, "columns": "key,name"}, "columns has name: choose from key, value"),
        ({**HERE, "columns": ""}, "columns has nothing"),
        ({**HERE, "columns": "key", "includeHeaders": "true"}, "do not say the same"),
        ({"topic": "moves", "paths": "/data"}, "paths is no list"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as error:
        source_options(given)
    assert said in str(error.value)


def test_what_makes_no_sense_in_a_batch_or_in_a_stream() -> None:
    for given in ({"startingOffsets": "latest"}, {"startingOffsets": '{"moves": {"0": -1}}'}):
        with pytest.raises(UsageError, match="a batch ends there"):
            source_options({**HERE, **given}).for_batch()
    with pytest.raises(UsageError, match="maxOffsetsPerTrigger is for streams"):
        source_options({**HERE, "maxOffsetsPerTrigger": "5"}).for_batch()
    with pytest.raises(UsageError, match="endingTimestamp is for batches"):
        source_options({**HERE, "endingTimestamp": "5"}).for_stream()
