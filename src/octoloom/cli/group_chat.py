"""`octoloom group chat`: an instant messenger in the terminal, in an order of one's choice."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence
from pathlib import Path

import click
import uvloop

from octoloom.cli import group_chat_words as words
from octoloom.cli.group_chat_room import Stay, Wish
from octoloom.cli.group_chat_screen import Screen, Terminal, screen
from octoloom.cli.group_options import register_option
from octoloom.core.errors import OctoloomError, UsageError
from octoloom.runtime.group import DELAY_MS_MAX, TRANSPORTS

ORDERS = ("none", "fifo", "causal", "total")


@click.command(short_help="Talk to others in a room, in an order.")
@click.argument("room")
@click.option("--as", "name", required=True, metavar="NAME", help="Who you are; nobody else in the room may have it.")
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    help="In which order everybody's messages come.  [default: the room's; causal in a new one]",
)
@click.option(
    "--delay",
    "delays",
    multiple=True,
    metavar="NAME=MS",
    help="Have what you say to all reach this one so many ms later, to see what an order is for; may be repeated.",
)
@click.option(
    "--transport", type=click.Choice(TRANSPORTS), help="How members speak.  [default: the room's; tcp in a new one]"
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen, and what the others dial.")
@click.option(
    "--trace",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write every step there, for `octoloom group trace`.",
)
@register_option
def chat(
    room: str,
    name: str,
    order: str | None,
    delays: tuple[str, ...],
    transport: str | None,
    host: str,
    trace: Path | None,
    register: str,
) -> None:
    """Talk to the others in ROOM, until Ctrl-C. Whoever comes first makes the room.

    What you type goes to all; /help says what else there is. With the order `none` an answer may stand before its
    question, with `causal` never; with `total` the lines stand in the same order on every screen. A message is marked
    with ‖ if its sender had not seen all that you had, and it says how long it was held back, if it was. In a pipe,
    lines come in and go out as they are, for scripts.

    \b
    Examples:
      octoloom register                          # once, in a terminal of its own
      octoloom group chat lunch --as ada
      octoloom group chat lunch --as ada --order none --delay cathy=3000
      octoloom group chat lunch --as bob --trace bob.steps
      (echo 'Lunch is ready'; sleep 1) | octoloom group chat lunch --as cook
    """
    wish = Wish(room, name, register, order or "", transport or "", host, trace, _parse_delays(delays))
    uvloop.run(_Chat(wish).run())


def _parse_delays(texts: Sequence[str]) -> dict[str, int]:
    delays: dict[str, int] = {}
    for text in texts:
        name, _, ms = text.rpartition("=")
        if not name:
            raise UsageError(f"{text!r} is no delay: write NAME=MS, as in --delay bob=2000")
        delays[name] = _parse_ms(ms)
    return delays


def _parse_ms(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:10]) > DELAY_MS_MAX:
        raise UsageError(f"{text!r} is no delay: write milliseconds, 0 to {DELAY_MS_MAX}")
    return int(text)


class _Chat:
    """One `octoloom group chat`, from its start to Ctrl-C."""

    def __init__(self, wish: Wish) -> None:
        self._ended = asyncio.Event()
        self._hurried = asyncio.Event()
        self._screen: Screen = screen(self._ended.set)
        self._stay = Stay(wish, self._screen)

    async def run(self) -> None:
        """Leaves properly at the first Ctrl-C, and at once at the second."""
        self._listen_to_signals()
        with self._screen.open(), _Notes(self._stay):
            living, typing = asyncio.ensure_future(self._stay.live()), asyncio.ensure_future(self._obey())
            ending = asyncio.ensure_future(self._ended.wait())
            tasks = [living, typing, ending]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if not living.done():
                    await self._leave(living)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        for task in (living, typing):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _leave(self, living: asyncio.Future[None]) -> None:
        if not self._stay.inside.is_set():
            return
        leaving = asyncio.ensure_future(self._stay.leave())
        hurrying = asyncio.ensure_future(self._hurried.wait())
        await asyncio.wait([leaving, hurrying], return_when=asyncio.FIRST_COMPLETED)
        hurrying.cancel()
        if leaving.done():
            await asyncio.wait([living])  # it shows what has come meanwhile
            self._stay.note("you have left")
        else:
            leaving.cancel()
            await self._stay.room.abandon()

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._interrupt)
        if isinstance(self._screen, Terminal):
            loop.add_signal_handler(signal.SIGCONT, self._screen.resume)

    def _interrupt(self) -> None:
        if self._ended.is_set():
            self._hurried.set()
        self._ended.set()

    # What is typed.

    async def _obey(self) -> None:
        await self._stay.inside.wait()
        async for line in self._screen.lines():
            if line.strip() == "/quit":
                return
            if line.strip():
                await self._stay.inside.wait()
                try:
                    await self._do(line)
                except OctoloomError as error:
                    self._stay.note(words.plain(str(error)))

    async def _do(self, line: str) -> None:
        if not line.startswith("/") or line.startswith("//"):
            await self._stay.say(line.removeprefix("/"))
            return
        command, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        match command:
            case "/to":
                await self._stay.tell(*self._name_and_rest(rest, "/to bob Lunch?"))
            case "/order":
                await self._stay.room.set_order(rest)
            case "/delay":
                name, ms = self._name_and_rest(rest, "/delay bob 2000")
                self._stay.set_delay(name, _parse_ms(ms))
            case "/who":
                self._stay.note(self._stay.describe())
            case "/help":
                for text in words.HELP:
                    self._stay.note(text)
            case _:
                raise UsageError(f"there is no {command}: /help says what there is")

    def _name_and_rest(self, text: str, example: str) -> tuple[str, str]:
        """Names may have blanks in them: those who are here are known, another one is a word."""
        members = sorted(self._stay.room.members, key=len, reverse=True)
        name = next((name for name in members if text.startswith(f"{name} ")), text.partition(" ")[0])
        rest = text[len(name) :].strip()
        if not name or not rest:
            raise UsageError(f"write it like {example}")
        return name, rest


class _Notes(logging.Handler):
    """What the parts below warn of, as lines of the chat."""

    def __init__(self, stay: Stay) -> None:
        super().__init__(logging.WARNING)
        self._stay = stay

    def __enter__(self) -> None:
        logging.getLogger().addHandler(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self._stay.note(words.plain(record.getMessage()))
