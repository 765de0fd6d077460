"""Bugs in consumer groups: who is in, who reads what, how far, and for how long that is kept."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CONSUMERS = (
    Mutant(
        "heap-entry-of-before",
        "a deadline that was put off does not fire early",
        "core/consumer_timers.py",
        """            if due is not None and due > time:
""",
        """            if due is not None and due > now:
""",
        "tests/core/test_consumer_timers.py",
    ),
    Mutant(
        "cleared-timer-fires",
        "a deadline that was taken back does not fire",
        "core/consumer_timers.py",
        """        self._due.pop(key, None)
        if len""",
        "        if len",
        "tests/core/test_consumer_timers.py",
    ),
    Mutant(
        "timers-grow",
        "leftovers of deadlines are swept out",
        "core/consumer_timers.py",
        """        heapq.heappush(self._heap, (due, self._order, key))
        if len(self._heap) > 2 * len(self._due) + SLACK:
            self._sweep()
""",
        """        heapq.heappush(self._heap, (due, self._order, key))
""",
        "tests/core/test_consumer_timers.py",
    ),
    Mutant(
        "earlier-deadline-late",
        "a deadline that was put forward is kept",
        "core/consumer_timers.py",
        "if queued is None or due < queued:",
        "if queued is None:",
        "tests/core/test_consumer_timers.py",
    ),
    Mutant(
        "member-id-reused",
        "an id is given once",
        "core/consumer_joins.py",
        "elif not request.fresh_id or request.fresh_id in group.members or request.fresh_id in group.pending:",
        "elif not request.fresh_id:",
        "tests/core/test_consumer_joins.py",
    ),
    Mutant(
        "pending-members-unbounded",
        "a group has so many members at most",
        "core/consumer_joins.py",
        "if is_more and len(group.members) + len(group.pending) >= self._settings.members_max:",
        "if is_more and len(group.members) >= self._settings.members_max:",
        "tests/core/test_consumer_joins.py tests/core/test_consumer_groups.py",
    ),
    Mutant(
        "old-instance-not-fenced",
        "of two with one instance id the older is fenced",
        "core/consumer_joins.py",
        """        self._rounds.dismiss(group, member, GroupError.FENCED_INSTANCE_ID)
""",
        "",
        "tests/core/test_consumer_joins.py tests/core/test_consumer_groups.py",
    ),
    Mutant(
        "pending-id-for-ever",
        "an id that nobody came back with is forgotten",
        "core/consumer_joins.py",
        """            self._timers.set(("member", group.name, request.fresh_id), now + request.session_timeout_ms)
""",
        "",
        "tests/core/test_consumer_joins.py tests/core/test_consumer_groups.py",
    ),
    Mutant(
        "size-counted-twice",
        "a member that joins again takes its own place",
        "core/consumer_joins.py",
        "if group.size - (known.size if known else 0) + self._size(request)",
        "if group.size + self._size(request)",
        "tests/core/test_consumer_joins.py tests/core/test_consumer_groups.py",
    ),
    Mutant(
        "told-before-stored",
        "nobody is told its partitions before they are stored",
        "core/consumer_rounds.py",
        """        group.assigning = True
        self._store(group, True, Assigning(group, group.generation))
""",
        """        group.assigning = True
        self._store(group, True, Assigning(group, group.generation))
        for member in group.members.values():
            self._answer_sync(0, group, member, GroupError.NONE)
""",
        "tests/core/test_consumer_rounds.py",
    ),
    Mutant(
        "left-out-keeps-partitions",
        "who is left out by the leader gets nothing",
        "core/consumer_rounds.py",
        'member.assignment = assignments.get(member.member_id, b"")',
        "member.assignment = assignments.get(member.member_id, member.assignment)",
        "tests/core/test_consumer_rounds.py",
        survives="every round begins with empty assignments, so there is nothing to keep",
    ),
    Mutant(
        "late-member-stays",
        "a round ends without those who did not join in time",
        "core/consumer_rounds.py",
        """        for member in late:
            self.drop(group, member.member_id)
""",
        "",
        "tests/core/test_consumer_rounds.py tests/core/test_consumer_groups.py",
    ),
    Mutant(
        "leader-is-gone",
        "the leader is one who has joined",
        "core/consumer_rounds.py",
        """        if group.members[group.leader].join_ticket is None:
""",
        """        if group.leader not in group.members:
""",
        "tests/core/test_consumer_rounds.py tests/core/test_consumer_groups.py",
    ),
    Mutant(
        "unsynced-never-expelled",
        "who does not sync in time is expelled",
        "core/consumer_rounds.py",
        """        self._timers.set(("sync", group.name, ""), due)
""",
        "",
        "tests/core/test_consumer_rounds.py tests/core/test_consumer_groups.py",
    ),
    Mutant(
        "sync-waits-through-round",
        "who waits for an assignment is told of a new round",
        "core/consumer_rounds.py",
        """                self._answer_sync(now, group, member, GroupError.REBALANCE_IN_PROGRESS)
        group.is_initial""",
        """                member.sync_ticket = None
        group.is_initial""",
        "tests/core/test_consumer_rounds.py tests/core/test_consumer_groups.py",
    ),
    Mutant(
        "dropped-timer-stays",
        "a member that left leaves no deadline behind",
        "core/consumer_rounds.py",
        """        self._timers.clear(("member", group.name, member_id))

    def dismiss""",
        """
    def dismiss""",
        "tests/core/test_consumer_rounds.py tests/core/test_consumer_groups.py",
    ),
    Mutant(
        "commit-in-rebalance",
        "offsets of partitions that may be another's are refused",
        "core/consumer_commits.py",
        """        if group.state is GroupState.COMPLETING:
""",
        """        if group.state is GroupState.DEAD:
""",
        "tests/core/test_consumer_commits.py tests/core/test_consumer_groups.py",
    ),
    Mutant(
        "committed-before-stored",
        "a commit is answered when it is stored",
        "core/consumer_commits.py",
        """        group.offsets.begin(accepted)
""",
        """        group.offsets.begin(accepted)
        group.offsets.stored.update(accepted)
""",
        "tests/core/test_consumer_commits.py",
    ),
    Mutant(
        "failed-commit-pending",
        "a commit that failed keeps nothing from being deleted",
        "core/consumer_commits.py",
        """        wait.group.offsets.end(wait.offsets)
        results""",
        "        results",
        "tests/core/test_consumer_commits.py",
    ),
    Mutant(
        "old-generation-commits",
        "who was expelled does not commit",
        "core/consumer_commits.py",
        "return group.refusal(request.member, request.instance) or group.generation_refusal(request.generation)",
        "return group.refusal(request.member, request.instance)",
        "tests/core/test_consumer_commits.py tests/core/test_consumer_groups.py",
    ),
    Mutant(
        "used-offsets-expire",
        "offsets are kept as long as the group has members",
        "core/group_offsets.py",
        "if max(record.committed_at, empty_since) + retention_ms <= now",
        "if record.committed_at + retention_ms <= now",
        "tests/core/test_group_offsets.py",
    ),
    Mutant(
        "pending-offsets-expire",
        "an offset that is being committed does not expire",
        "core/group_offsets.py",
        """ <= now and partition not in self.pending
""",
        """ <= now
""",
        "tests/core/test_group_offsets.py",
    ),
    Mutant(
        "offsets-bound-off",
        "a group has so many offsets at most",
        "core/group_offsets.py",
        "if size + len(new) > offsets_max:",
        "if size + len(new) > offsets_max + 1:",
        "tests/core/test_group_offsets.py",
    ),
)
