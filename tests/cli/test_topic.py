"""The commands for topics on real brokers, as people and pipes use them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from octoloom.cli import COMMANDS, octoloom
from octoloom.cli.topic import command as group
from tests.runtime.real_log import RealLog, real_log
from tests.waiting import PATIENCE_S

MAIN = "from octoloom.cli import COMMANDS, main; COMMANDS['topic'] = 'topic'; main()"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealLog]:
    with real_log(tmp_path_factory.mktemp("log"), brokers=2) as log:
        yield log


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", MAIN, "topic", *arguments]


def environment(bootstrap: str) -> dict[str, str]:
    return {**os.environ, "OCTOLOOM_BOOTSTRAP": bootstrap}


def topic(log: RealLog, *arguments: str, said: bytes = b"") -> Result:
    """Runs a command in this process, which spares the time to start another."""
    COMMANDS.setdefault("topic", "topic")
    return CliRunner().invoke(octoloom, ["topic", *arguments], input=said, env={"OCTOLOOM_BOOTSTRAP": log.bootstrap})


def out(log: RealLog, *arguments: str, said: bytes = b"") -> bytes:
    result = topic(log, *arguments, said=said)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout_bytes


@contextlib.contextmanager
def running(log: RealLog, *arguments: str, stdin: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command(*arguments),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(log.bootstrap),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_topic_from_its_birth_to_its_end(log: RealLog) -> None:
    config = ["--config", "retention.ms=86400000"]
    made = out(log, "create", "life", "--partitions", "3", "--replicas", "2", *config)
    assert made == b"created life with 3 partitions\n"
    again = topic(log, "create", "life")
    assert again.exit_code == 1
    assert again.stderr == "Error: the topic life exists already: see `octoloom topic describe`\n"

    [listed] = [row for row in json.loads(out(log, "list", "--json")) if row["name"] == "life"]
    assert listed == {"name": "life", "partitions": 3, "replicas": 2, "not_in_sync": 0}
    [described] = json.loads(out(log, "describe", "life", "--json"))
    assert described["config"]["retention.ms"] == "86400000"
    assert [part["in_sync"] for part in described["partitions"]] == [[1, 2]] * 3
    assert [(part["start"], part["high"]) for part in described["partitions"]] == [(0, 0)] * 3
    shown = out(log, "describe", "life").decode()
    assert re.search(r"^partition +leader +epoch +in sync +replicas +start +high$", shown, re.M)
    assert re.search(r"^ +2 +[12] at 127\.0\.0\.1:\d+ +\d+ +1 2 +\d \d +0 +0$", shown, re.M)

    assert out(log, "delete", "life") == b"deleted life\n"
    gone = topic(log, "describe", "life")
    assert (gone.exit_code, gone.stdout) == (1, "")
    assert gone.stderr.startswith("Error: the topic life does not exist: see `octoloom topic list`")


def test_lines_become_records_and_records_lines(log: RealLog) -> None:
    out(log, "create", "lines", "--partitions", "2")
    lines = b"a:1\nb:2\nno key\n\na:3"
    assert out(log, "produce", "lines", "-K", ":", "-H", "trace=1", "-z", "zstd", said=lines) == b""
    printed = out(log, "consume", "lines", "-e", "-f", "%k|%K|%s|%h\\n").splitlines()
    assert sorted(printed) == [
        b"a|1|1|trace=1",
        b"a|1|3|trace=1",
        b"b|1|2|trace=1",
        b"|-1|no key|trace=1",
        b"|-1||trace=1",
    ]
    assert sorted(out(log, "consume", "lines", "-e", "-K", "=").splitlines()) == [
        b"=",
        b"=no key",
        b"a=1",
        b"a=3",
        b"b=2",
    ]

    # As JSON into another topic, with keys, headers, timestamps and partitions.
    out(log, "create", "copy", "--partitions", "2")
    told = out(log, "consume", "lines", "-e", "--json")
    out(log, "produce", "copy", "--json", said=told)
    copied = [json.loads(line) for line in out(log, "consume", "copy", "-e", "--json").splitlines()]
    originals = [json.loads(line) for line in told.splitlines()]
    assert sorted(copied, key=str) == sorted(({**one, "topic": "copy"} for one in originals), key=str)


def test_many_lines_keep_their_order_whatever_their_size(log: RealLog) -> None:
    out(log, "create", "many", "--partitions", "2")
    lines = [b"%d" % number for number in range(30_000)]
    lines[10_000:10_000] = [b"", b"x" * 400_000, b"y" * 5000, b""]
    said = b"\n".join(lines) + b"\n"
    assert out(log, "produce", "many", "-p", "1", "-z", "lz4", said=said) == b""
    assert out(log, "consume", "many", "-e", "-p", "1") == said
    # Without a partition they go where there is room, each once.
    out(log, "create", "anywhere", "--partitions", "3")
    out(log, "produce", "anywhere", said=said)
    assert sorted(out(log, "consume", "anywhere", "-e").splitlines()) == sorted(lines)


def test_where_to_start_and_when_to_end(log: RealLog) -> None:
    out(log, "create", "numbers")
    out(log, "produce", "numbers", said=b"".join(b"%d\n" % number for number in range(100)))
    assert out(log, "consume", "numbers", "-c", "3") == b"0\n1\n2\n"
    assert out(log, "consume", "numbers", "--from", "97", "-e") == b"97\n98\n99\n"
    assert out(log, "consume", "numbers", "-o", "-2", "-e", "-p", "0") == b"98\n99\n"
    assert out(log, "consume", "numbers", "-o", "end", "-e") == b""
    assert out(log, "consume", "numbers", "--from", "2000-01-01", "-c", "1") == b"0\n"
    assert out(log, "consume", "numbers", "--from", "2999-01-01", "-e") == b""
    assert out(log, "consume", "numbers", "--from", "101", "-e") == b""
    beyond = topic(log, "consume", "numbers", "--from", "101", "-c", "1")
    assert beyond.exit_code == 1
    assert "the offset is not in numbers-0: start at the beginning or at the end" in beyond.stderr


def test_a_consumer_prints_at_once_and_ends_cleanly(log: RealLog) -> None:
    out(log, "create", "live")
    with running(log, "consume", "live", "--from", "end") as process:
        assert process.stdout is not None
        # Where the end is when it starts, nobody knows; of what comes after it the first line is printed at once.
        while not select.select([process.stdout], [], [], 0.1)[0]:
            out(log, "produce", "live", said=b"hello\n")
        assert process.stdout.readline() == b"hello\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_pipe_that_closes_ends_it_even_while_nothing_comes(log: RealLog) -> None:
    out(log, "create", "pipe")
    out(log, "produce", "pipe", said=b"one\n")
    with running(log, "consume", "pipe") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
        process.stdout = None


def test_lines_of_a_terminal_are_sent_one_by_one_and_kept_on_ctrl_c(log: RealLog) -> None:
    out(log, "create", "typed")
    ours, theirs = pty.openpty()
    with running(log, "produce", "typed", stdin=theirs) as process:
        os.write(ours, b"first\n")
        assert out(log, "consume", "typed", "-c", "1") == b"first\n"
        os.write(ours, b"second\n")
        assert out(log, "consume", "typed", "-c", "2") == b"first\nsecond\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""
    os.close(ours)
    os.close(theirs)


def test_a_change_of_leadership_can_be_watched(log: RealLog, tmp_path: Path) -> None:
    out(log, "create", "moving", "--replicas", "2")
    [before] = json.loads(out(log, "describe", "moving", "--json"))
    leader, number = before["partitions"][0]["leader"], log.at(before["partitions"][0]["address"])
    with running(log, "describe", "moving", "--watch", "--json") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert first["after"] == {"leader": leader, "epoch": 1, "in_sync": [1, 2]}
        log.kill(number)
        try:
            story = [first]
            while story[-1]["after"]["leader"] in (leader, -1):
                story.append(json.loads(process.stdout.readline()))
            assert story[-1]["after"]["leader"] == 3 - leader
            assert story[-1]["after"]["epoch"] > 1
            for earlier, later in itertools.pairwise(story):
                assert later["before"] == earlier["after"]
        finally:
            log.bring_back(number)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["list", "-b", "127.0.0.1:1"], 1, "no broker answers at 127.0.0.1:1: start one with `octoloom up`"),
        (["list", "-b", "somewhere"], 2, "write host:port"),
        (["create", "x", "--config", "retention"], 2, "write KEY=VALUE, as in retention.ms=86400000"),
        (["create", "x", "--partitions", "0"], 2, "'--partitions'"),
        (["produce", "x", "-H", "novalue"], 2, "'novalue' is no header"),
        (["produce", "x", "--json", "-K", ":"], 2, "leave out -K and -k"),
        (["produce", "x", "-z", "rar"], 2, "'rar' is not one of"),
        (["consume", "x", "--from", "nowhere"], 2, "is no place to start"),
        (["consume", "x", "--group", "g", "--from", "5"], 2, "a group begins at the beginning or at the end"),
        (["consume", "x", "--group", "g", "-p", "1"], 2, "leave out -p, or --group"),
        (["consume", "x", "-f", "%q"], 2, "%q means nothing"),
        (["consume", "x", "--json", "-f", "%s"], 2, "leave out -f and -K"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_names_the_next_step(arguments: list[str], code: int, says: str) -> None:
    COMMANDS.setdefault("topic", "topic")
    result = CliRunner().invoke(octoloom, ["topic", *arguments])
    assert result.exit_code == code, result.output
    assert says in result.output
    assert "Traceback" not in result.output
    assert result.output.strip().splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize("name", ["", "create", "list", "describe", "delete", "produce", "consume", "groups"])
def test_every_help_has_examples(name: str) -> None:
    result = CliRunner().invoke(group, [*filter(None, [name]), "--help"])
    assert result.exit_code == 0
    assert "Examples:" in result.output
    assert f"octoloom topic {name}".strip() in result.output


def test_wrong_lines_and_wrong_partitions_are_told(log: RealLog) -> None:
    out(log, "create", "strict")
    wrong = topic(log, "produce", "strict", "--json", said=b'{"value": "a"}\nnonsense\n')
    assert wrong.exit_code == 2
    assert "Error: line 2: not a record as JSON" in wrong.stderr
    nowhere = topic(log, "consume", "strict", "-p", "7", "-e")
    assert nowhere.exit_code == 2
    assert nowhere.stderr == "Error: strict has no partition 7: it has 1, from 0 on\n"
    unknown = topic(log, "produce", "never-made", said=b"x\n")
    assert unknown.exit_code == 1
    assert "the topic never-made does not exist" in unknown.stderr
