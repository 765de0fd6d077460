"""What is said of a change."""

from __future__ import annotations

import json
import re

from octoloom.cli.topic_watch import changes
from octoloom.wire.kafka.client_messages import Cluster, Partition, Topic, TopicPartition


def cluster(**topics: list[tuple[int, int, tuple[int, ...]]]) -> Cluster:
    """Topics with (leader, epoch, in-sync set) for each partition."""
    return Cluster(
        {},
        {
            name: Topic(
                0,
                name,
                {
                    number: Partition(0, number, leader, epoch, (1, 2, 3), in_sync)
                    for number, (leader, epoch, in_sync) in enumerate(partitions)
                },
            )
            for name, partitions in topics.items()
        },
        -1,
        None,
    )


def said(known: dict[TopicPartition, Partition], now: Cluster) -> list[str]:
    return [re.sub(r"^\d\d:\d\d:\d\d\.\d\d\d  ", "", line) for line in changes(known, now, as_json=False)]


def test_the_story_of_a_partition() -> None:
    known: dict[TopicPartition, Partition] = {}
    assert said(known, cluster(b=[(1, 4, (1, 2, 3))], a=[(2, 1, (2,))])) == [
        "a-0  leader 2  epoch 1  in sync 2",
        "b-0  leader 1  epoch 4  in sync 1,2,3",
    ]
    assert said(known, cluster(b=[(1, 4, (3, 2, 1))], a=[(2, 1, (2,))])) == []
    assert said(known, cluster(b=[(-1, 4, (2, 3))], a=[(2, 1, (2,))])) == [
        "b-0  leader 1 → none  epoch 4  in sync 1,2,3 → 2,3"
    ]
    assert said(known, cluster(b=[(2, 5, (2, 3))], a=[(2, 1, ())])) == [
        "a-0  leader 2  epoch 1  in sync 2 → nobody",
        "b-0  leader none → 2  epoch 4 → 5  in sync 2,3",
    ]
    assert said(known, cluster(b=[(2, 5, (2, 3))])) == ["a-0  deleted"]
    assert said(known, cluster(b=[(2, 5, (2, 3))])) == []


def test_the_same_for_programs() -> None:
    known: dict[TopicPartition, Partition] = {}
    first = json.loads(changes(known, cluster(a=[(1, 4, (1, 2))]), as_json=True)[0])
    assert "before" not in first
    assert (first["topic"], first["partition"]) == ("a", 0)
    second = json.loads(changes(known, cluster(a=[(2, 5, (2,))]), as_json=True)[0])
    assert second["before"] == {"leader": 1, "epoch": 4, "in_sync": [1, 2]}
    assert second["after"] == {"leader": 2, "epoch": 5, "in_sync": [2]}
