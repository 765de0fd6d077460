"""The register's desk for topics: brokers enlist here, and whoever follows the log's directory is told.

What is told here are changes, each on top of the one before. So, unlike for chains, everything is told, in the order in
which the core said it; a new connection begins with the whole directory, and hears of no change that is in it already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec

from octoloom.core.errors import ProtocolError
from octoloom.core.log_messages import (
    Accept,
    AdminDone,
    Allot,
    Allotted,
    BrokerBeat,
    ConfigureTopic,
    DropTopic,
    EnlistBroker,
    GrowTopic,
    LogDirectory,
    LogNews,
    MakeTopic,
    ProposeInSync,
    Refuse,
    Taken,
)
from octoloom.core.log_register import LogRegister
from octoloom.core.log_saved import Decline, LogEffect, Persist, Tell, TellAll
from octoloom.core.register_messages import Declined, Leave
from octoloom.runtime.broker_directory import Directory
from octoloom.runtime.frames import FramedConnection
from octoloom.runtime.register_desk import decline, send
from octoloom.runtime.register_story import RegisterStory
from octoloom.wire.register import Request, encode_frame


class LogDesk:
    """`on_due` is called when there is something to save or to tell."""

    def __init__(self, core: LogRegister, on_due: Callable[[], None]) -> None:
        self.core = core
        self._on_due = on_due
        self._names: dict[FramedConnection, str] = {}
        self._brokers: dict[str, FramedConnection] = {}
        """The newest connection of each broker."""
        self._followers: dict[FramedConnection, None] = {}
        self.unsaved: list[Persist] = []
        self._untold: list[LogNews] = []
        self._outbox: list[tuple[FramedConnection, bytes, bool]] = []
        """What to send once all is saved, and whether it is the last thing on that connection."""
        self._ticket = 0
        self._own: dict[int, asyncio.Future[AdminDone]] = {}
        """Topics that the register itself wants, by ticket."""
        self._answered: list[AdminDone] = []
        self.directory = Directory()
        """What is durable, for Kafka clients."""
        self.directory.on_directory(core.directory())
        self._story = RegisterStory()

    def deadline(self) -> int | None:
        return self.core.deadline()

    def on_time(self, now: int) -> None:
        self._obey(self.core.on_time(now))

    def on_ask(self, connection: FramedConnection, follow: bool) -> None:
        """Nothing may be unsaved now."""
        send(connection, encode_frame(self.core.directory()))
        if follow and connection not in self._names:
            self._followers[connection] = None

    def on_enlist(self, now: int, connection: FramedConnection, request: EnlistBroker) -> None:
        broker = request.address.broker
        if self._names.get(connection, broker) != broker:
            raise ProtocolError("enlisted-twice", f"{self._names[connection]} enlists as {broker}")
        effects = self.core.on_enlist(now, broker, request)
        for effect in effects:
            if isinstance(effect, Decline) and effect.broker == broker:
                self._story.on_declined(effect)
                decline(connection, effect.code, effect.detail)
                return
        older = self._brokers.get(broker)
        if older is not None and older is not connection:
            older.close()
        self._followers.pop(connection, None)
        self._names[connection], self._brokers[broker] = broker, connection
        self._obey(effects, connection)

    def on_request(self, now: int, connection: FramedConnection, request: Request) -> None:
        broker = self._names.get(connection)
        if broker is None:
            return  # it was declined, or has a newer connection, and this one is about to end
        match request:
            case BrokerBeat(sent_at):
                effects = self.core.on_beat(now, broker, sent_at)
            case Leave():
                effects = self.core.on_leave(now, broker)
            case Accept() | Refuse():
                self._story.on_answer(broker, request)
                effects = self.core.on_message(now, broker, request)
            case ProposeInSync() | Taken() | Allot() | MakeTopic() | DropTopic() | GrowTopic() | ConfigureTopic():
                effects = self.core.on_message(now, broker, request)
            case _:
                raise ProtocolError("misplaced", f"a broker does not say {type(request).__name__}")
        self._obey(effects)

    def on_closed(self, now: int, connection: FramedConnection) -> None:
        self._followers.pop(connection, None)
        broker = self._names.pop(connection, "")
        # An older connection of a broker that is back says nothing about the broker.
        if broker and self._brokers.get(broker) is connection:
            del self._brokers[broker]
            self._obey(self.core.on_closed(now, broker))

    def allot(self, now: int, count: int) -> Allotted | None:
        """Producer ids for the register itself. They may be used once everything is saved."""
        effects = self.core.on_own(now, Allot(count))
        self._obey(effects)
        told = [effect.message for effect in effects if isinstance(effect, Tell)]
        return next((message for message in told if isinstance(message, Allotted)), None)

    def make(self, now: int, topic: MakeTopic) -> asyncio.Future[AdminDone]:
        """The register itself wants a topic: the answer comes when all brokers know it, or too late."""
        self._ticket += 1
        answer = self._own[self._ticket] = asyncio.get_running_loop().create_future()
        self._obey(self.core.on_own(now, msgspec.structs.replace(topic, ticket=self._ticket)))
        return answer

    def tell(self) -> None:
        self.unsaved = []
        untold, self._untold = self._untold, []
        for news in untold:
            self.directory.on_news(news)
        answered, self._answered = self._answered, []
        for done in answered:
            waiting = self._own.pop(done.ticket, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(done)
        outbox, self._outbox = self._outbox, []
        for connection, frame, is_last in outbox:
            send(connection, frame)
            if is_last:
                connection.close()

    def _obey(self, effects: Sequence[LogEffect], newcomer: FramedConnection | None = None) -> None:
        if newcomer is not None:
            effects = sorted(effects, key=_is_not_greeting)
        for effect in effects:
            match effect:
                case Persist():
                    self.unsaved.append(effect)
                case TellAll(LogNews() as news):
                    self._story.on_news(news)
                    self._untold.append(news)
                    self._queue((each for each in self._everybody() if each is not newcomer), encode_frame(news))
                case TellAll(message):
                    self._story.on_transition(message)
                    self._queue(self._everybody(), encode_frame(message))
                case Tell("", AdminDone() as done):
                    self._answered.append(done)
                case Tell(broker, message):
                    if broker in self._brokers:
                        self._queue([self._brokers[broker]], encode_frame(message))
                case Decline(broker, code, detail):
                    if connection := self._brokers.pop(broker, None):
                        self._story.on_declined(effect)
                        del self._names[connection]
                        self._outbox.append((connection, encode_frame(Declined(code, detail)), True))
        if effects:
            self._on_due()

    def _everybody(self) -> list[FramedConnection]:
        return [*self._brokers.values(), *self._followers]

    def _queue(self, connections: Iterable[FramedConnection], frame: bytes) -> None:
        self._outbox.extend((connection, frame, False) for connection in connections)


def _is_not_greeting(effect: LogEffect) -> bool:
    """The directory that a newcomer is told goes first: it already holds what is said before it."""
    return not (isinstance(effect, Tell) and isinstance(effect.message, LogDirectory))
