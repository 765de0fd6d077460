"""News as golden lines: what two pictures say when they are held against each other."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from octoloom.console.news import NEWS_MAX, News, news_between, numbers_text
from octoloom.console.picture import Picture, RegisterSeen
from octoloom.runtime.log_groups import GroupStatus, MemberStatus
from tests.console.scenes import LINKS, WHOLE, broker, chain, group, later, link, partition, topic


def told(before: Picture, after: Picture) -> list[str]:
    return [f"{news.about} {news.mood}: {news.text}" for news in news_between(before, after)]


def test_nothing_is_no_news() -> None:
    assert told(WHOLE, WHOLE) == []
    assert told(WHOLE, later()) == []


def test_a_head_dies_and_comes_back() -> None:
    dead = later(links=[link(1, "down"), link(2), link(3)], chains=[chain(LINKS[1:], epoch=4)])
    learning = later(dead, links=[link(1, "silent", 500), link(2), link(3)])
    learning = later(learning, chains=[chain(LINKS[1:], epoch=4, learner="link1#2")])
    whole = later(
        learning, links=[link(1, pid=500), link(2), link(3)], chains=[chain([*LINKS[1:], "link1#2"], epoch=5)]
    )
    story = [WHOLE, dead, learning, whole]
    assert [told(*pair) for pair in pairwise(story)] == [
        ["process bad: link1 is down", "chain bad: chain1 moved to epoch 4: link1 went, link2 is head now"],
        ["chain plain: link1 learns the state of chain1"],
        [
            "silence good: link1 answers again",
            "chain plain: chain1 moved to epoch 5: link1 came",
            "chain good: chain1 is whole: link2 → link3 → link1",
        ],
    ]


def test_a_death_between_two_pictures_is_seen_from_what_it_left() -> None:
    after = later(links=[link(1, pid=500), link(2), link(3)], chains=[chain([*LINKS[1:], "link1#2"], epoch=6)])
    assert told(WHOLE, after) == [
        "process plain: link1 ended and came back, process 500",
        "chain plain: chain1 moved to epoch 6: link1 went, link1 came, link2 is head now",
    ]


def test_all_links_are_lost() -> None:
    lost = later(chains=[chain([], epoch=4, whole=[])])
    assert told(WHOLE, lost) == [
        "chain bad: chain1 moved to epoch 4: link1, link2, link3 went, no link is left",
    ]
    anew = later(lost, chains=[chain(["link1#2"], epoch=5, generation=2, replicas=1)])
    assert told(lost, anew) == [
        "chain bad: chain1 began generation 2: all its links had been lost",
        "chain plain: chain1 moved to epoch 5: link1 came, link1 is head now",
        "chain good: chain1 is whole: link1",
    ]


def test_a_register_that_is_away_says_nothing_new() -> None:
    gone = later(told=False, register=RegisterSeen("127.0.0.1:7070", "down", 0, 1, 1_000), chains=[], topics=[])
    assert told(WHOLE, gone) == ["process bad: the register is down"]
    back = later(gone, register=RegisterSeen("127.0.0.1:7070", "up", 98, 1), chains=WHOLE.chains, topics=WHOLE.topics)
    assert told(msgspec.structs.replace(gone, chains=WHOLE.chains, topics=WHOLE.topics), back) == [
        "process good: the register is up again, process 98"
    ]
    silent = later(told=False, register=RegisterSeen("127.0.0.1:7070", "silent", 99, 0, 1_000))
    assert told(WHOLE, silent) == ["silence bad: the register does not answer"]
    assert told(silent, later(silent, register=WHOLE.register)) == ["silence good: the register answers again"]
    restarted = later(register=RegisterSeen("127.0.0.1:7070", "up", 98, 1))
    assert told(WHOLE, restarted) == ["process plain: the register ended and came back, process 98"]


def test_processes_come_and_go() -> None:
    hung = later(links=[link(1), link(2, "silent"), link(3)])
    assert told(WHOLE, hung) == ["silence bad: link2 does not answer"]
    assert told(hung, later(hung, links=WHOLE.links)) == ["silence good: link2 answers again"]
    dead = later(brokers=[broker(1, "down"), broker(2), broker(3)])
    assert told(dead, later(dead, brokers=WHOLE.brokers)) == ["process good: broker1 is up again, process 201"]
    updated = later(links=[link(4), link(2), link(3)])
    assert told(WHOLE, updated) == ["process plain: link4 is new, process 104", "process bad: link1 is gone"]


def test_a_broker_dies_and_one_line_tells_of_all_its_partitions() -> None:
    others = ["broker2", "broker3"]
    after = later(
        topics=[
            topic(
                partition(0, "broker2", others), partition(1, "broker2", others), partition(2, "broker2", others),
                name="journal",
            ),
            topic(partition(0, "broker1"), name="moves"),
        ]
    )  # fmt: skip
    before = msgspec.structs.replace(WHOLE, topics=[*WHOLE.topics, topic(partition(0, "broker1"), name="moves")])
    assert told(before, after) == [
        "topic plain: broker2 leads journal 0–2 now, which broker1 led",
        "topic bad: broker1 is not in sync any more in journal 0–2",
    ]
    assert told(after, later(after, topics=before.topics)) == [
        "topic plain: broker1 leads journal 0–2 now, which broker2 led",
        "topic good: broker1 is in sync in journal 0–2",
    ]


def test_many_topics_are_counted_and_few_are_named() -> None:
    names = ["journal", "moves", "orders"]
    before = later(topics=[topic(partition(0), partition(1), name=name) for name in names])
    without = ["broker2", "broker3"]
    moved = [topic(partition(0, in_sync=without), partition(1, in_sync=without), name=name) for name in names]
    assert told(before, later(before, topics=moved)) == [
        "topic bad: broker1 is not in sync any more in 6 partitions of 3 topics"
    ]
    assert told(before, later(before, topics=[*moved[:2], before.topics[2]])) == [
        "topic bad: broker1 is not in sync any more in journal 0, 1 and moves 0, 1"
    ]


def test_partitions_lose_their_leader_and_topics_come_and_go() -> None:
    leaderless = later(topics=[topic(partition(0, "", []), partition(1), partition(2))])
    assert told(WHOLE, leaderless)[0] == "topic bad: nobody leads journal 0, which broker1 led"
    assert told(leaderless, later(leaderless, topics=WHOLE.topics))[0] == (
        "topic plain: broker1 leads journal 0 now, which nobody led"
    )
    assert told(WHOLE, later(topics=[topic(partition(0), name="moves")])) == [
        "topic plain: the topic moves is new, with 1 partition",
        "topic plain: the topic journal was deleted",
    ]


def test_groups_have_views() -> None:
    assert told(WHOLE, later(groups=[group(["bob#1", "cathy#1"], 6)])) == [
        "group plain: lunch has a view in epoch 6: ada went, cathy came, bob coordinates now"
    ]
    assert told(WHOLE, later(groups=[group(["ada#1", "bob#1"], 6, "total")])) == [
        "group plain: lunch has a view in epoch 6: messages come in total order now"
    ]
    assert told(WHOLE, later(groups=[])) == ["group plain: nobody is in the group lunch any more"]
    assert told(later(groups=[]), later(later(groups=[]), groups=WHOLE.groups)) == [
        "group plain: the group lunch is there, in causal order: ada, bob"
    ]


def test_consumer_groups_change_their_members() -> None:
    def with_members(count: int, at_ms: int) -> Picture:
        members = [MemberStatus(str(number), "client", "127.0.0.1") for number in range(count)]
        return later(consumers=[GroupStatus("billing", "Stable", 0, members, [])], consumers_ms=at_ms)

    assert told(WHOLE, with_members(2, 5)) == []
    assert told(with_members(2, 5), with_members(1, 8)) == [
        "group plain: the consumer group billing has 1 member, had 2"
    ]


def test_much_news_is_cut_and_says_so() -> None:
    many = later(topics=[topic(name=f"topic{number}") for number in range(100)])
    news = told(WHOLE, many)
    assert len(news) == NEWS_MAX
    assert news[-1] == "cluster plain: and 62 more changes"


def test_news_says_between_which_pictures_it_happened() -> None:
    [news] = news_between(WHOLE, later(groups=[]))
    assert news == News(2_000, 1_000, "group", "plain", "nobody is in the group lunch any more")


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([3], "3"), ([1, 0], "0, 1"), ([0, 1, 2, 5, 7, 8, 9], "0–2, 5, 7–9")]
)
def test_runs_of_numbers_are_short(numbers: list[int], text: str) -> None:
    assert numbers_text(numbers) == text
