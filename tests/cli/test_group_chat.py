"""`octoloom group chat` as people and scripts use it: real processes, and a real register."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from octoloom import Group, ReceivedMessage
from octoloom.cli import octoloom
from octoloom.core.steps import BUFFERED
from octoloom.runtime.step_file import read_steps
from tests.cli.chats import ChatProcess, PtyChat, chat_command
from tests.runtime.real_log import RealProcess
from tests.waiting import PATIENCE_S

_rooms = itertools.count(1)


@pytest.fixture(scope="module")
def register(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = tmp_path_factory.mktemp("register")
    process = RealProcess("register", data, "register", "--port", "0", "--data", str(data))
    try:
        yield process.address
    finally:
        process.end(signal.SIGTERM)


class Room:
    """One test's own."""

    def __init__(self, register: str, stack: contextlib.ExitStack) -> None:
        self.name = f"room{next(_rooms)}"
        self.register = register
        self._stack = stack

    def enter(self, name: str, *options: str) -> ChatProcess:
        return self._stack.enter_context(ChatProcess(self.register, self.name, name, *options))

    def enter_all(self, *names: str, options: Sequence[str] = (), last: Sequence[str] = ()) -> list[ChatProcess]:
        """The first makes the room, with these options; then all meet. `last` are options of the last one."""
        first = self.enter(names[0], *options)
        first.await_line("* you are in")
        chats = [first, *(self.enter(name, *(last if name == names[-1] else ())) for name in names[1:])]
        for chat in chats:
            chat.await_together(*(name for name in names if name != chat.name))
        return chats


@pytest.fixture
def room(register: str) -> Iterator[Room]:
    with contextlib.ExitStack() as stack:
        yield Room(register, stack)


@pytest.mark.parametrize(
    ("order", "transport"), [("none", "tcp"), ("causal", "tcp"), ("causal", "udp")], ids=lambda value: value
)
def test_the_answer_shows_before_the_question_only_without_an_order(
    order: str, transport: str, room: Room, tmp_path: Path
) -> None:
    """Ada's line to Cathy is slow. Bob answers as soon as he sees the question."""
    steps = tmp_path / "cathy.steps"
    options = ("--order", order, "--transport", transport, "--delay", "cathy=2000")
    ada, bob, cathy = room.enter_all("ada", "bob", "cathy", options=options, last=("--trace", str(steps)))
    ada.await_line("* cathy gets what you say to all 2 s later")
    ada.type("Done?")
    bob.await_line("ada: Done?")
    bob.type("Lunch?")
    cathy.await_line("ada: Done?")
    answer = cathy.await_line("bob: Lunch?")
    cathy.type("Yes")
    for chat in (ada, bob, cathy):
        chat.await_line("cathy: Yes")
    assert ada.said() == bob.said() == ["ada: Done?", "bob: Lunch?", "cathy: Yes"]
    held = [step for step in read_steps([steps]) if step.name == BUFFERED]
    if order == "causal":
        assert cathy.said() == ["ada: Done?", answer, "cathy: Yes"]
        assert answer.startswith("bob: Lunch?  (held back for ")
        assert [step.sender.split("#")[0] for step in held] == ["bob"]
    else:
        assert cathy.said() == ["bob: Lunch?", "ada: Done?", "cathy: Yes"]
        assert held == []


def test_who_writes_without_having_seen_the_other_is_marked(room: Room) -> None:
    ada, bob = room.enter_all("ada", "bob")
    ada.type("/delay bob 700", "/delay zoe 100", "Where?")
    ada.await_line("ada: Where?")
    bob.type("Now!")
    assert ada.await_line("bob: ") == "bob: ‖ Now!"
    assert bob.await_line("ada: ") == "ada: ‖ Where?"
    hint = "* ‖ means: written without having seen all of the above"
    ada.await_line(hint)
    bob.type("So?")
    assert ada.await_line("bob: So?") == "bob: So?"
    ada.type("Now, too", "/who")
    ada.await_line("ada: Now, too")
    who = ada.await_line("* ada (coordinator, you), bob (gets yours 700 ms later); epoch ")
    assert who.endswith("messages come in causal order")
    assert ada.lines.count(hint) == 1
    assert "* zoe is not here; it will count from when they come" in ada.lines


def test_the_order_is_switched_for_all_at_one_place(room: Room) -> None:
    chats = ada, bob, cathy = room.enter_all("ada", "bob", "cathy", options=("--order", "fifo"))
    bob.type("before")
    for chat in chats:
        chat.await_line("bob: before")
    bob.type("/order total")
    for chat in chats:
        chat.await_line("* from here on messages come in total order")
    for chat in chats:
        chat.type(*(f"{chat.name[0]}{number}" for number in range(20)))
    for chat in chats:
        for name in ("ada", "bob", "cathy"):
            chat.await_line(f"{name}: {name[0]}19")
    assert len(ada.said()) == 61
    assert ada.said() == bob.said() == cathy.said()
    for name in ("ada", "bob", "cathy"):
        assert [line for line in ada.said()[1:] if line.startswith(name)] == [
            f"{name}: {name[0]}{n}" for n in range(20)
        ]
    cathy.type("/order none", "after")
    for chat in chats:
        chat.await_line("cathy: after")
        end = chat.lines.index("* from here on messages come in no order")
        assert chat.lines[end + 1 :] == ["cathy: after"]


def test_every_line_shows_once_however_often_the_order_is_switched(room: Room) -> None:
    chats = ada, bob, cathy = room.enter_all("ada", "bob", "cathy", options=("--order", "total"))
    counts = range(150)
    for chat in (bob, cathy):
        chat.type(*(f"{number}" for number in counts))
    ada.type(*(f"/order {order}" for order in ("causal", "total", "fifo", "total")), "all said?")
    ada.await_line("ada: all said?")
    for chat in (bob, cathy):
        chat.type("yes")
    for chat in chats:
        for name in ("bob", "cathy"):
            chat.await_line(f"{name}: yes")
            said = [
                line.split(": ")[1].split("  ")[0].removeprefix("‖ ") for line in chat.said() if line.startswith(name)
            ]
            assert said == [*map(str, counts), "yes"]


def test_one_is_told_something_alone_and_mistakes_are_told_to_nobody_else(room: Room) -> None:
    ada, bob = room.enter_all("ada", "bob y", options=("--order", "total"))
    ada.type("/to bob y psst", "/to eve psst", "/dance", "/order upside", "/delay bob soon", "/to bob", "x" * 4001)
    ada.type("//who", "/help", "a\x1b[31mred\x07", "last")
    ada.await_line("ada: last")
    assert bob.await_line("ada → you") == "ada → you: psst"
    bob.await_line("ada: last")
    assert ada.said() == ["you → bob y: psst", "ada: /who", "ada: a�[31mred�", "ada: last"]
    assert bob.said() == ["ada → you: psst", "ada: /who", "ada: a�[31mred�", "ada: last"]
    for start in (
        "* eve is not in room",
        "* there is no /dance: /help says what there is",
        "* there is no order called 'upside'",
        "* 'soon' is no delay",
        "* write it like /to bob Lunch?",
        "* a message has at most 4000 characters here, not 4001",
        "* /order ORDER",
    ):
        assert ada.has(start), start


@pytest.mark.parametrize("how", ["end of input", "/quit", "Ctrl-C"])
def test_a_leaver_is_missed_and_the_next_coordinates(how: str, room: Room) -> None:
    ada, bob = room.enter_all("ada", "bob", options=("--order", "total"))
    if how == "Ctrl-C":
        ada.type("bye")
        ada.await_line("ada: bye")
        ada.process.send_signal(signal.SIGINT)
    else:
        ada.type("bye", *(["/quit"] if how == "/quit" else []))
    assert (ada.wait() if how != "end of input" else ada.end()) == 0
    assert ada.lines[-2:] == ["ada: bye", "* you have left"]
    bob.await_line("* you are the coordinator now")
    assert bob.lines[-3:] == ["ada: bye", "* ada is gone", "* you are the coordinator now"]
    bob.type("alone")
    bob.await_line("bob: alone")


def test_who_slept_too_long_comes_back_as_somebody_new(room: Room) -> None:
    ada, bob = room.enter_all("ada", "bob", options=("--delay", "bob=1"))
    ada.process.send_signal(signal.SIGSTOP)
    try:
        bob.type("Ada?")
        bob.await_line("* ada is gone")
    finally:
        ada.process.send_signal(signal.SIGCONT)
    ada.await_line("* the others went on without you: coming back")
    ada.await_line(f"* you are in {room.name} again, as somebody new, with bob")
    ada.type("Here!", "/who")
    assert bob.await_line("ada: ") == "ada: Here!"
    assert ada.await_line("* bob (coordinator").startswith("* bob (coordinator, gets yours 1 ms later), ada (you);")


def test_nobody_takes_anothers_name(room: Room) -> None:
    (ada,) = room.enter_all("ada")
    other = room.enter("ada")
    assert other.wait() == 2
    assert other.lines == [f"Error: somebody is in {room.name} as ada already: choose another name with --as"]
    ada.type("still here")
    ada.await_line("ada: still here")

    async def supersede() -> None:
        async with Group.join(room.name, name="ada", register=room.register):
            assert await asyncio.to_thread(ada.wait) == 2

    asyncio.run(supersede())
    assert ada.lines[-2:] == ["* the others went on without you: coming back", *other.lines]


def test_programs_and_people_can_talk(room: Room) -> None:
    (ada,) = room.enter_all("ada", options=("--order", "causal"))

    async def program() -> None:
        async with Group.join(room.name, name="robot", register=room.register) as group:
            await group.send_many(["one", {"say": "two"}, None])
            await group.to_others("aside", ordered=False)
            await asyncio.to_thread(ada.await_line, "robot: aside")
            ada.type("three")
            assert (await anext(group)) == ReceivedMessage("ada", "three", number=1)

    asyncio.run(program())
    ada.await_line("* robot is gone")
    assert ada.said() == ["robot: one", 'robot: {"say":"two"}', "robot: null", "robot: aside", "ada: three"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--register", "127.0.0.1:1"], "no register answers at 127.0.0.1:1: start one with `octoloom register`"),
        (["--register", "nowhere"], "write host:port"),
        (["--delay", "bob"], "'bob' is no delay: write NAME=MS, as in --delay bob=2000"),
        (["--delay", "bob=soon"], "'soon' is no delay: write milliseconds, 0 to 600000"),
        (["--delay", "bob=700000"], "write milliseconds, 0 to 600000"),
        (["--order", "upside"], "'upside'"),
        (["--transport", "pigeon"], "'pigeon'"),
        (["--as", "a#b"], "'a#b' is no name"),
        (["--order", "total"], "come in fifo order: leave out --order, and switch it for all with /order total"),
        (["--transport", "udp"], "speaks tcp: leave out --transport"),
        (["--trace", "/nowhere/x.steps"], "the trace /nowhere/x.steps cannot be written: No such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_clear_line(options: list[str], says: str, fifo_room: Room) -> None:
    given = ["--as", "zoe", "--register", fifo_room.register, *options]
    result = CliRunner().invoke(octoloom, ["group", "chat", fifo_room.name, *given])
    assert result.exit_code == 2, result.output
    assert says in result.output
    assert "Traceback" not in result.output
    assert result.output.strip().splitlines()[-1].startswith("Error: ")


@pytest.fixture(scope="module")
def fifo_room(register: str) -> Iterator[Room]:
    with contextlib.ExitStack() as stack:
        room = Room(register, stack)
        room.enter_all("ada", options=("--order", "fifo"))
        yield room


def test_who_stops_reading_ends_the_chat(room: Room) -> None:
    (bob,) = room.enter_all("bob")
    line = shlex.join(chat_command(room.register, room.name, "ada")) + " | head -3"
    with subprocess.Popen(line, shell=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as ada:
        bob.await_together("ada")
        bob.type("one")
        assert ada.stdout is not None
        assert [ada.stdout.readline() for _ in range(3)][-1] == "bob: one\n"
        bob.type("two")
        bob.await_line("* ada is gone")
        assert ada.wait(PATIENCE_S) == 0


def test_in_a_terminal_what_arrives_does_not_tear_the_line(room: Room) -> None:
    (bob,) = room.enter_all("bob")
    with PtyChat(room.register, room.name, "ada") as ada:
        ada.await_end("ada> ")
        assert not ada.echoes()
        bob.await_together("ada")
        ada.type("half a lin")
        ada.await_end("ada> half a lin")
        bob.type("Hello")
        ada.await_text("Hello")
        ada.await_end("\r\x1b[Kada> half a lin")
        ada.type("\x7fne\r")
        assert bob.await_line("ada: ") == "ada: half a line"
        ada.await_end("ada> ")
        ada.type("\x03")
        assert ada.process.wait(PATIENCE_S) == 0
        assert ada.echoes()
        ada.await_end("* you have left\x1b[0m\r\n\r\x1b[Kada> \r\x1b[K")
