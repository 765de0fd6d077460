"""Consumer groups on a broker: finds the coordinator of each request and passes on what is said.

A group belongs to one partition of the internal topic (`directory_answers.place_of`), and the broker that leads it
hosts the coordinator (`group_host`). Who asks another broker is told so (NOT_COORDINATOR) and looks again; while a new
leader still reads the log he is asked to wait (COORDINATOR_LOAD_IN_PROGRESS).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from kio.static.protocol import ResponsePayload

from octoloom.core import consumer_messages as say
from octoloom.core.consumer_messages import GroupError, Response
from octoloom.core.consumer_settings import GroupSettings
from octoloom.core.log_messages import TopicPartition
from octoloom.core.topic_admin import OFFSETS_TOPIC
from octoloom.runtime import group_requests as words
from octoloom.runtime.broker_apis import Handlers, Host, Request
from octoloom.runtime.directory_answers import (
    MAKE_OFFSETS_TOPIC,
    coordinator_values,
    needs_offsets_topic,
    place_of,
)
from octoloom.runtime.group_host import LOG_BYTES_MAX, Ask, GroupHost
from octoloom.runtime.later import Later
from octoloom.wire.kafka.apis import Api
from octoloom.wire.kafka.compose import compose


class BrokerGroups:
    def __init__(self, host: Host, settings: GroupSettings | None = None, log_bytes_max: int = LOG_BYTES_MAX) -> None:
        self._host = host
        self._settings = settings or GroupSettings()
        self._log_bytes_max = log_bytes_max
        self._hosts: dict[int, GroupHost] = {}
        """By number of the partition; those that this broker leads."""
        self._later = Later()
        self._topics: dict[str, int] = {}
        """The topics that were there when somebody last looked, with their numbers."""
        self._looked_at = -1
        host.listeners.append(self)

    def handlers(self) -> Handlers:
        return {
            Api.FIND_COORDINATOR: self._on_find_coordinator,
            Api.JOIN_GROUP: self._on_join,
            Api.SYNC_GROUP: self._on_sync,
            Api.HEARTBEAT: self._on_heartbeat,
            Api.LEAVE_GROUP: self._on_leave,
            Api.OFFSET_COMMIT: self._on_commit,
            Api.OFFSET_FETCH: self._on_fetch_offsets,
            Api.LIST_GROUPS: self._on_list,
            Api.DESCRIBE_GROUPS: self._on_describe,
            Api.DELETE_GROUPS: self._on_delete,
        }

    def close(self) -> None:
        self._later.close()
        for host in self._hosts.values():
            host.close()
        self._hosts.clear()

    # Leadership.

    def on_leadership_taken(self, name: TopicPartition, epoch: int) -> None:
        if name[0] == OFFSETS_TOPIC:
            self.on_leadership_lost(name)
            self._hosts[name[1]] = GroupHost(self._host, name, self._settings, self._log_bytes_max)

    def on_leadership_lost(self, name: TopicPartition) -> None:
        if name[0] == OFFSETS_TOPIC and (host := self._hosts.pop(name[1], None)):
            host.close()

    def _find(self, group: str) -> tuple[GroupHost | None, GroupError]:
        """The host of a group's coordinator, or the error that stands for it."""
        partitions = len(self._host.directory.partitions(OFFSETS_TOPIC))
        host = self._hosts.get(place_of(group, partitions)[1]) if partitions else None
        if host is None:
            return None, GroupError.NOT_COORDINATOR
        if host.refusal:
            return None, GroupError(host.refusal)
        self._look_for_deleted_topics()
        return host, GroupError.NONE

    def _look_for_deleted_topics(self) -> None:
        """The offsets in a topic go with it, before anybody can ask for them again."""
        directory = self._host.directory
        if self._looked_at == directory.changes:
            return
        self._looked_at = directory.changes
        now = {name: info.number for name, info in directory.topics.items()}
        gone = [name for name, number in self._topics.items() if now.get(name) != number]
        self._topics = now
        for topic in gone:
            for host in list(self._hosts.values()):
                host.on_topic_deleted(topic)

    # Finding.

    def _on_find_coordinator(self, request: Request) -> None:
        asked = request.decode()
        if needs_offsets_topic(self._host.directory, asked):
            self._later.answer(request, self._make_topic(request, asked))
        else:
            request.answer(compose(request.header, **coordinator_values(request.header, asked, self._host.directory)))

    async def _make_topic(self, request: Request, asked: Any) -> ResponsePayload:
        # Others may be making it as well. Whoever comes first, it is there then.
        await self._host.register.request(MAKE_OFFSETS_TOPIC)
        return compose(request.header, **coordinator_values(request.header, asked, self._host.directory))

    # Membership.

    def _on_join(self, request: Request) -> None:
        header = request.header
        fresh_id = f"{header.client_id or 'member'}-{uuid4()}"
        join = words.join_request(header, request.decode(), fresh_id, f"/{request.client_host}")
        self._ask(
            request,
            join.group,
            lambda core, now, ticket: core.on_join(now, ticket, join),
            lambda answer: words.join_values(header, answer),
            lambda error: say.JoinAnswer(error, join.member),
        )

    def _on_sync(self, request: Request) -> None:
        sync = words.sync_request(request.decode())
        ask: Ask = lambda core, now, ticket: core.on_sync(now, ticket, sync)  # noqa: E731
        self._ask(request, sync.group, ask, words.sync_values, say.SyncAnswer)

    def _on_heartbeat(self, request: Request) -> None:
        beat = words.heartbeat_request(request.decode())
        ask: Ask = lambda core, now, ticket: core.on_heartbeat(now, ticket, beat)  # noqa: E731
        self._ask(request, beat.group, ask, lambda answer: {"error_code": answer.error}, say.HeartbeatAnswer)

    def _on_leave(self, request: Request) -> None:
        leave = words.leave_request(request.header, request.decode())
        self._ask(
            request,
            leave.group,
            lambda core, now, ticket: core.on_leave(now, ticket, leave),
            lambda answer: words.leave_values(request.header, answer),
            say.LeaveAnswer,
        )

    def _ask(
        self,
        request: Request,
        group: str,
        ask: Ask,
        values_of: Callable[[Any], dict[str, Any]],
        refused: Callable[[GroupError], Response],
    ) -> None:
        """Asks the group's coordinator, or answers as it would if it were not here."""

        def on_answer(answer: Response) -> None:
            if not request.is_abandoned:
                request.answer(compose(request.header, **values_of(answer)))

        host, error = self._find(group)
        if host is None:
            on_answer(refused(error))
        else:
            host.ask(ask, on_answer)

    # Offsets.

    def _on_commit(self, request: Request) -> None:
        asked: Any = request.decode()
        wanted = words.offsets_of(asked)
        known = [offset for offset in wanted if self._host.directory.state((offset.topic, offset.partition))]
        commit = words.commit_request(asked, known)

        def values(answer: say.CommitAnswer) -> dict[str, Any]:
            errors = {(topic, partition): int(error) for topic, partition, error in answer.results}
            unknown = int(GroupError.UNKNOWN_TOPIC_OR_PARTITION)
            return words.commit_values(
                (each.topic, each.partition, errors.get((each.topic, each.partition), unknown)) for each in wanted
            )

        def refused(error: GroupError) -> say.CommitAnswer:
            return say.CommitAnswer(tuple((offset.topic, offset.partition, error) for offset in wanted))

        self._ask(request, commit.group, lambda core, now, ticket: core.on_commit(now, ticket, commit), values, refused)

    def _on_fetch_offsets(self, request: Request) -> None:
        queries = words.offset_queries(request.header, request.decode())
        fetched = [self._fetched(query) for query in queries]
        request.answer(compose(request.header, **words.offsets_values(request.header, queries, fetched)))

    def _fetched(self, query: say.OffsetsQuery) -> say.FetchedGroup:
        """One group of many. Each may belong to another coordinator, and all of them answer at once."""
        host, error = self._find(query.group)
        if host is None:
            return say.FetchedGroup(query.group, error)
        answers: list[Response] = []
        asked = say.FetchOffsetsRequest((query,))
        host.ask(lambda core, now, ticket: core.on_fetch_offsets(now, ticket, asked), answers.append)
        [answer] = answers
        assert isinstance(answer, say.FetchOffsetsAnswer)
        return answer.groups[0]

    # Administration.

    def _on_list(self, request: Request) -> None:
        asked: Any = request.decode()
        states = getattr(asked, "states_filter", ())
        ready = [host.core for host in self._hosts.values() if not host.refusal]
        is_loading = any(host.refusal == GroupError.COORDINATOR_LOAD_IN_PROGRESS for host in self._hosts.values())
        groups = [
            {"group_id": group.group, "protocol_type": group.protocol_type, "group_state": group.state}
            for core in ready
            for group in core.list_groups(states)
        ]
        error = GroupError.COORDINATOR_LOAD_IN_PROGRESS if is_loading else GroupError.NONE
        request.answer(compose(request.header, error_code=error, groups=groups))

    def _on_describe(self, request: Request) -> None:
        asked: Any = request.decode()
        groups = [words.description_values(self._described(group)) for group in dict.fromkeys(asked.groups)]
        request.answer(compose(request.header, groups=groups))

    def _described(self, group: str) -> say.GroupDescription:
        host, error = self._find(group)
        return say.GroupDescription(group, error, "") if host is None else host.core.describe(group)

    def _on_delete(self, request: Request) -> None:
        asked: Any = request.decode()
        names = list(dict.fromkeys(asked.groups_names))
        errors: dict[str, int] = {}

        def on_answer(answer: Response) -> None:
            assert isinstance(answer, say.DeleteAnswer)
            errors.update((name, int(error)) for name, error in answer.results)
            if len(errors) == len(names) and not request.is_abandoned:
                results = [{"group_id": name, "error_code": errors[name]} for name in names]
                request.answer(compose(request.header, results=results))

        if not names:
            request.answer(compose(request.header, results=[]))
        for name in names:
            self._delete(name, on_answer)

    def _delete(self, name: str, on_answer: Callable[[Response], None]) -> None:
        host, error = self._find(name)
        if host is None:
            on_answer(say.DeleteAnswer(((name, error),)))
        else:
            asked = say.DeleteRequest((name,))
            host.ask(lambda core, now, ticket: core.on_delete(now, ticket, asked), on_answer)
