"""The door of a group: who may join, and as what.

A request is checked first and changes nothing if it is refused. Then it is one of these:

- a newcomer without an id: it is given one. Clients that can (JoinGroup 4 and later) are asked to come again with it,
  so that one whose answer got lost does not leave a member behind that nobody ever hears of;
- a static member that comes back without its id: it takes its old place under a new id, and whoever had the old id is
  fenced. If it asks for the same as before, the generation goes on and nobody else notices;
- a member that joins again: since a round is on; since it did not get its answer; since what it wants has changed; or
  since it is the leader and has seen that the topics have changed. The last two begin a round.
"""

from __future__ import annotations

from octoloom.core.consumer_ledger import Ledger
from octoloom.core.consumer_membership import Group, GroupState, Member, member_of, size_of
from octoloom.core.consumer_messages import GroupError, JoinAnswer, JoinRequest
from octoloom.core.consumer_rounds import Rounds, Timer
from octoloom.core.consumer_settings import NAME_MAX, PROTOCOLS_MAX, GroupSettings
from octoloom.core.consumer_subscription import same_subscription
from octoloom.core.consumer_timers import Timers
from octoloom.core.errors import UsageError


class Joins:
    def __init__(self, settings: GroupSettings, timers: Timers[Timer], ledger: Ledger, rounds: Rounds) -> None:
        self._settings = settings
        self._timers = timers
        self._ledger = ledger
        self._rounds = rounds

    # Checks.

    def refusal(self, group: Group, request: JoinRequest) -> GroupError:
        return self._malformed(request) or self._not_for_this_group(group, request)

    def _malformed(self, request: JoinRequest) -> GroupError:
        settings = self._settings
        if not settings.session_timeout_min_ms <= request.session_timeout_ms <= settings.session_timeout_max_ms:
            return GroupError.INVALID_SESSION_TIMEOUT
        names = {name for name, _ in request.protocols}
        if not request.protocol_type or not 0 < len(names) == len(request.protocols) <= PROTOCOLS_MAX:
            return GroupError.INCONSISTENT_GROUP_PROTOCOL
        is_named_well = len(request.protocol_type) <= NAME_MAX and len(request.instance or "") <= NAME_MAX
        is_named_well = is_named_well and request.instance != ""
        if not is_named_well or request.rebalance_timeout_ms < 0 or self._size(request) > settings.member_bytes_max:
            return GroupError.INVALID_REQUEST
        return GroupError.NONE

    def _not_for_this_group(self, group: Group, request: JoinRequest) -> GroupError:
        if group.state is GroupState.DEAD:
            return GroupError.COORDINATOR_NOT_AVAILABLE
        if request.member in group.pending:
            if request.instance is not None:
                return GroupError.UNKNOWN_MEMBER_ID
        elif request.member:
            refusal = group.refusal(request.member, request.instance)
            if refusal is not GroupError.NONE:
                return refusal
        elif not request.fresh_id or request.fresh_id in group.members or request.fresh_id in group.pending:
            raise UsageError(f"{request.fresh_id!r} is no fresh id: pass one that nobody has had")
        known = self._known(group, request)
        if not group.supports(request.protocol_type, request.protocols, known):
            return GroupError.INCONSISTENT_GROUP_PROTOCOL
        is_more = known is None and request.member not in group.pending
        if is_more and len(group.members) + len(group.pending) >= self._settings.members_max:
            return GroupError.GROUP_MAX_SIZE_REACHED
        if group.size - (known.size if known else 0) + self._size(request) > self._settings.group_bytes_max:
            return GroupError.GROUP_MAX_SIZE_REACHED
        return GroupError.NONE

    @staticmethod
    def _known(group: Group, request: JoinRequest) -> Member | None:
        """The member whose place the request is about."""
        if request.member or request.instance is None:
            return group.members.get(request.member)
        return group.members.get(group.instances.get(request.instance, ""))

    @staticmethod
    def _size(request: JoinRequest) -> int:
        return size_of(request.client_id, request.client_host, request.protocols)

    # Changes.

    def join(self, now: int, group: Group, ticket: int, request: JoinRequest) -> None:
        """Takes a request that `refusal` has nothing against."""
        known = self._known(group, request)
        if known is not None and request.member:
            self._join_again(now, group, known, ticket, request)
        elif known is not None:
            self._take_over(now, group, known, ticket, request)
        elif request.member:
            del group.pending[request.member]
            self._admit(now, group, request.member, ticket, request)
        elif request.requires_member_id and request.instance is None:
            group.pending[request.fresh_id] = None
            self._timers.set(("member", group.name, request.fresh_id), now + request.session_timeout_ms)
            self._ledger.answer(ticket, JoinAnswer(GroupError.MEMBER_ID_REQUIRED, request.fresh_id))
            self._rounds.wait_for_more(now, group)
        else:
            self._admit(now, group, request.fresh_id, ticket, request)

    def _admit(self, now: int, group: Group, member_id: str, ticket: int, request: JoinRequest) -> None:
        self._rounds.admit(now, group, member_of(member_id, request), request.protocol_type, ticket)

    def _join_again(self, now: int, group: Group, member: Member, ticket: int, request: JoinRequest) -> None:
        wants_the_same = member.protocols == request.protocols
        begins_a_round = group.state is GroupState.STABLE and group.leader == member.member_id
        if group.state is GroupState.PREPARING:
            self._update(now, group, member, ticket, request)
            self._rounds.try_complete(now, group)
        elif begins_a_round or not wants_the_same:
            self._update(now, group, member, ticket, request)
            self._rounds.prepare(now, group)
        elif group.state is GroupState.COMPLETING and not group.announced:
            self._rounds.wait_for_round(group, member, ticket)
        else:
            # It did not get the answer, or got it and forgot: the generation is still the same.
            self._rounds.hear(now, group, member)
            self._ledger.answer(ticket, self._rounds.current(group, member))

    def _take_over(self, now: int, group: Group, member: Member, ticket: int, request: JoinRequest) -> None:
        old_id, old_metadata = member.member_id, member.metadata(group.protocol)
        self._rounds.dismiss(group, member, GroupError.FENCED_INSTANCE_ID)
        self._timers.clear(("member", group.name, old_id))
        group.rename(member, request.fresh_id)
        self._rounds.expect(now, group, member)
        self._update(now, group, member, ticket, request)
        if group.state is GroupState.PREPARING:
            self._rounds.try_complete(now, group)
        elif self._asks_the_same(group, member, old_metadata):
            self._rounds.keep_place(group, member, ticket, old_id, request.may_skip_assignment)
        else:
            # Between join and assignment the leader may know the old id only: nothing would be assigned to the new.
            self._rounds.prepare(now, group)

    @staticmethod
    def _asks_the_same(group: Group, member: Member, old_metadata: bytes) -> bool:
        if group.state is not GroupState.STABLE or group.storing or group.choose_protocol() != group.protocol:
            return False
        return same_subscription(group.protocol_type, old_metadata, member.metadata(group.protocol))

    def _update(self, now: int, group: Group, member: Member, ticket: int, request: JoinRequest) -> None:
        group.update(member, request)
        self._rounds.wait_for_round(group, member, ticket)
        self._rounds.hear(now, group, member)
