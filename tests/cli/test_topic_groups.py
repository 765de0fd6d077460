"""Consumer groups on the command line: members that print, and what is shown of them."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from octoloom.cli.topic_groups_screen import _show_list
from tests.cli.test_topic import out, running, topic
from tests.runtime.real_log import RealLog, real_log


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealLog]:
    with real_log(tmp_path_factory.mktemp("log"), brokers=2) as log:
        yield log


def lines(*numbers: int) -> bytes:
    return b"".join(b"%d\n" % number for number in numbers)


def test_a_group_goes_on_where_it_was(log: RealLog) -> None:
    out(log, "create", "orders", "--partitions", "2")
    out(log, "produce", "orders", "-p", "0", said=lines(*range(10)))
    assert out(log, "consume", "orders", "--group", "billing", "-c", "4") == lines(0, 1, 2, 3)
    assert out(log, "consume", "orders", "-G", "billing", "-e", "-f", "%o %s\\n") == b"".join(
        b"%d %d\n" % (number, number) for number in range(4, 10)
    )
    assert out(log, "consume", "orders", "--group", "billing", "-e") == b""
    out(log, "produce", "orders", "-p", "1", said=lines(10, 11, 12))
    [listed] = [row.split() for row in out(log, "groups").decode().splitlines() if row.startswith("billing")]
    assert listed == ["billing", "empty", "0", "2", "3"]
    head, _, *rows = out(log, "groups", "billing").decode().splitlines()
    assert head == "billing  empty, 0 members, lag 3"
    assert [row.split() for row in rows] == [
        ["orders", "0", "10", "10", "0", "nobody"],
        ["orders", "1", "0", "3", "3", "nobody"],
    ]
    assert out(log, "consume", "orders", "--group", "billing", "--from", "end", "-e") == lines(10, 11, 12)


def test_where_there_are_none_the_way_to_one_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    _show_list([])
    said = capsys.readouterr()
    assert (said.out, "There are no consumer groups" in said.err) == ("", True)


def test_members_share_and_are_shown(log: RealLog) -> None:
    out(log, "create", "shared", "--partitions", "2")
    with (
        running(log, "consume", "shared", "--group", "pair") as ada,
        running(log, "consume", "shared", "--group", "pair", "--json") as eve,
    ):
        readers: set[str] = set()
        while len(readers) < 2:
            found = topic(log, "groups", "pair", "--json")
            [group] = json.loads(found.stdout) if found.exit_code == 0 else [{"partitions": []}]
            readers = {part["member"] for part in group["partitions"]} - {""}
        assert group["state"] == "Stable"
        assert [part["partition"] for part in group["partitions"]] == [0, 1]
        assert {member["id"] for member in group["members"]} == readers
        assert {member["client"] for member in group["members"]} == {"octoloom-topic"}
        assert b"stable, 2 members" in out(log, "groups", "pair")
        for number in (0, 1):
            out(log, "produce", "shared", "-p", str(number), said=lines(number))
        assert ada.stdout is not None
        assert eve.stdout is not None
        seen = {int(ada.stdout.readline()), int(json.loads(eve.stdout.readline())["value"])}
        assert seen == {0, 1}
        for process in (ada, eve):
            process.send_signal(signal.SIGINT)
            assert process.wait() == 130
    [left] = json.loads(out(log, "groups", "pair", "--json"))
    assert (left["state"], left["members"], left["lag"]) == ("Empty", [], 0)
    assert [part["committed"] for part in left["partitions"]] == [1, 1]


def test_a_group_that_is_not_there_is_told(log: RealLog) -> None:
    gone = topic(log, "groups", "nobody")
    assert gone.exit_code == 1
    assert gone.stderr == "Error: the consumer group nobody does not exist: see `octoloom topic groups`\n"


def test_a_group_without_members_is_put_elsewhere(log: RealLog) -> None:
    out(log, "create", "past", "--partitions", "2")
    for number in (0, 1):
        out(log, "produce", "past", "-p", str(number), said=lines(*range(10)))
    out(log, "consume", "past", "--group", "again", "-e")
    for place, committed in {"earliest": 0, "latest": 10, "4": 4, "-3": 7, "2020-01-01": 0}.items():
        [group] = json.loads(out(log, "groups", "again", "--reset", place, "--json"))
        assert [part["committed"] for part in group["partitions"]] == [committed] * 2
    assert sorted(out(log, "consume", "past", "--group", "again", "-e").split()) == sorted(
        lines(*range(10)).split() * 2
    )
    far = topic(log, "groups", "again", "--reset", "11")
    assert (far.exit_code, "has the offsets 0 to 10, and not 11" in far.stderr) == (2, True)
    [new] = json.loads(out(log, "groups", "never-seen", "--reset", "4", "-t", "past", "--json"))
    assert [part["committed"] for part in new["partitions"]] == [4, 4]


def test_a_group_with_members_is_not_put_elsewhere(log: RealLog) -> None:
    out(log, "create", "busy")
    out(log, "produce", "busy", said=lines(1))
    with running(log, "consume", "busy", "--group", "at-work", "-u") as member:
        assert member.stdout is not None
        assert member.stdout.readline() == b"1\n"
        refused = topic(log, "groups", "at-work", "--reset", "earliest")
        assert refused.exit_code == 2
        assert "the consumer group at-work has members" in refused.stderr
        assert "end them, then reset it" in refused.stderr
        member.send_signal(signal.SIGINT)
        member.wait()
    assert b"lag 1" in out(log, "groups", "at-work", "--reset", "earliest")


def test_what_cannot_be_reset_is_told(log: RealLog) -> None:
    for arguments, says in {
        ("--reset", "earliest"): "--reset is for one group: name it",
        ("one", "-t", "orders"): "-t says where to --reset a group",
        ("one", "--reset", "nowhere"): "'nowhere' is no place to start",
    }.items():
        wrong = topic(log, "groups", *arguments)
        assert (wrong.exit_code, says in wrong.stderr) == (2, True)
    nobody = topic(log, "groups", "nobody", "--reset", "earliest")
    assert (nobody.exit_code, "nobody does not exist" in nobody.stderr) == (1, True)
