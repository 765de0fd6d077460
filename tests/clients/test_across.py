"""What any client writes, with any codec, every client reads: the same keys, values and headers, in the same order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from octoloom.wire.kafka.compression import CODECS
from tests.clients.cluster import NOTES, Cluster
from tests.clients.speakers import SPEAKERS, Speaker

Written = Callable[[Speaker], str]


def each_speaker(argument: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(argument, SPEAKERS, ids=[speaker.name for speaker in SPEAKERS])


@pytest.fixture(scope="package")
def written(cluster: Cluster) -> Written:
    """The topic in which somebody wrote all notes, with a codec in each partition."""
    topics: dict[str, str] = {}

    def topic_of(writer: Speaker) -> str:
        if writer.name not in topics:
            topic = topics[writer.name] = cluster.topic(partitions=len(CODECS))
            for partition, codec in enumerate(CODECS):
                if not writer.lacks(codec):
                    writer.write(cluster.brokers, topic, partition, codec, NOTES)
        return topics[writer.name]

    return topic_of


@each_speaker("writer")
@pytest.mark.parametrize("codec", CODECS)
def test_batches_are_stored_as_the_client_compressed_them(
    cluster: Cluster, written: Written, writer: Speaker, codec: str
) -> None:
    if lack := writer.lacks(codec):
        pytest.skip(lack)
    topic, partition = written(writer), CODECS.index(codec)
    assert cluster.codecs_in(topic, partition) == {codec}
    batches = cluster.batches_in(topic, partition)
    assert sum(batch.count for batch in batches) == len(NOTES)
    assert all(batch.producer_id >= 0 for batch in batches)


@each_speaker("reader")
@each_speaker("writer")
def test_what_one_writes_every_other_reads(
    cluster: Cluster, written: Written, writer: Speaker, reader: Speaker
) -> None:
    if lack := writer.lacks("none") or reader.lacks("none"):
        pytest.skip(lack)
    topic = written(writer)
    for partition, codec in enumerate(CODECS):
        if not writer.lacks(codec) and not reader.lacks(codec):
            assert reader.read(cluster.register, topic, partition, 0, len(NOTES)) == list(NOTES), codec
    assert reader.read(cluster.brokers, topic, 0, 3, 2) == list(NOTES[3:])
