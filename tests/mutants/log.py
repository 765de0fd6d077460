"""Bugs in the log's cores: partitions, in-sync sets, producers, leaders, and the register's part for topics."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LOG = (
    Mutant(
        "ids-told-before-persisted",
        "producer ids are unique",
        "core/log_register.py",
        "return [Persist(self._counters), Tell(broker, Allotted(first, count))]",
        "return [Tell(broker, Allotted(first, count)), Persist(self._counters)]",
        "tests/core/test_log_register.py -k producer_ids",
    ),
    Mutant(
        "in-sync-without-what-was-before",
        "who joins the in-sync set has all that may be committed",
        "core/in_sync.py",
        "progress.durable >= max(high, self._began_at):",
        "progress.durable >= high:",
        "tests/core/test_in_sync.py tests/core/test_partition.py",
    ),
    Mutant(
        "proposed-do-not-count",
        "who is proposed counts at once",
        "core/in_sync.py",
        "self._counted = list(dict.fromkeys([*self.state.in_sync, *(wanted or ())]))",
        "self._counted = list(wanted or self.state.in_sync)",
        "tests/core/test_in_sync.py",
    ),
    Mutant(
        "refused-asks-at-once",
        "a refused proposal is not repeated in a circle",
        "core/in_sync.py",
        """            self._quiet_until = now + REFUSED_MS
""",
        "",
        "tests/core/test_in_sync.py",
    ),
    Mutant(
        "idle-follower-falls-out",
        "a follower that has all is in sync, however long nothing was written",
        "core/in_sync.py",
        """                progress.caught_up_at = now
            elif now -""",
        """                pass
            elif now -""",
        "tests/core/test_in_sync.py",
    ),
    Mutant(
        "durable-goes-back",
        "what a follower once had does not count as lost by an old word",
        "core/in_sync.py",
        """        if durable > self.durable:
            self.durable = durable
""",
        """        self.durable = durable
""",
        "tests/core/test_in_sync.py",
    ),
    Mutant(
        "watermark-without-own-disk",
        "committed is what the leader's own disk has, too",
        "core/partition.py",
        "level = self.leading.watermark(self.durable)",
        "level = self.leading.watermark(self.end)",
        "tests/core/test_partition.py",
    ),
    Mutant(
        "watermark-moves-while-held",
        "nothing commits while a transition is announced",
        "core/partition.py",
        """        if self.leading is None or self.held:
            return []
        level""",
        """        if self.leading is None:
            return []
        level""",
        "tests/core/test_partition.py",
    ),
    Mutant(
        "held-survives-epoch",
        "a leader writes again in its new epoch",
        "core/partition.py",
        "self.held = self.held and not newer",
        "self.held = self.held or newer",
        "tests/core/test_partition.py",
    ),
    Mutant(
        "old-decision-obeyed",
        "a decision that comes late changes nothing",
        "core/partition.py",
        """        if state.version <= self.state.version:
            return []
""",
        """        if state.version == self.state.version:
            return []
""",
        "tests/core/test_partition.py",
    ),
    Mutant(
        "duplicate-of-fenced-epoch",
        "a client with an old leader epoch is told",
        "core/partition.py",
        "return FENCED_EPOCH if epoch < self.state.epoch else UNKNOWN_EPOCH",
        "return UNKNOWN_EPOCH",
        "tests/core/test_partition.py",
    ),
    Mutant(
        "few-replicas-accepted",
        "acks=all needs as many in sync as the topic says",
        "core/partition.py",
        "if acks == -1 and self.leading.size < self.in_sync_min:",
        "if acks == -1 and self.leading.size + 1 < self.in_sync_min:",
        "tests/core/test_partition.py",
    ),
    Mutant(
        "follower-high-beyond-disk",
        "a follower's watermark is on its own disk",
        "core/partition.py",
        "self.high = max(self.high, min(high, self.durable))",
        "self.high = max(self.high, min(high, self.end))",
        "tests/core/test_partition.py",
    ),
    Mutant(
        "cuts-below-watermark",
        "nothing committed is ever cut off",
        "core/partition.py",
        """        if place < self.high:
            self.faulty = (""",
        """        if place < self.start:
            self.faulty = (""",
        "tests/core/test_partition.py",
    ),
    Mutant(
        "waiters-forgotten-on-cut",
        "who waits for what is lost is told",
        "core/partition.py",
        "lost = [waiting for waiting in self.waiting if waiting.next_offset > self.end]",
        "lost: list[Waiting] = []",
        "tests/core/test_partition.py",
    ),
    Mutant(
        "divergence-by-offset-only",
        "a follower's log agrees with the leader's by epochs",
        "core/partition.py",
        "if epoch != entry.last_epoch or end < entry.offset:",
        "if end < entry.offset:",
        "tests/core/test_partition.py",
    ),
    Mutant(
        "durable-of-other-epoch",
        "a follower's word of another epoch does not count",
        "core/partition.py",
        "if leading is None or epoch != self.state.epoch or durable > self.end:",
        "if leading is None or durable > self.end:",
        "tests/core/test_partition.py",
    ),
    Mutant(
        "producer-window-short",
        "a producer may have five batches in flight",
        "core/producers.py",
        """REMEMBERED = 5
""",
        """REMEMBERED = 4
""",
        "tests/core/test_producers.py",
    ),
    Mutant(
        "producer-old-epoch-writes",
        "a fenced producer does not write",
        "core/producers.py",
        """            if epoch < known.epoch:
                return Verdict.FENCED, -1
""",
        "",
        "tests/core/test_producers.py",
    ),
    Mutant(
        "producer-wraps-wrong",
        "sequence numbers go on after 2^31",
        "core/producers.py",
        "if sequence == (batches[-1][1] + 1) % SEQUENCES:",
        "if sequence == batches[-1][1] + 1:",
        "tests/core/test_producers.py",
    ),
    Mutant(
        "producer-table-forgets-newest",
        "the least recently heard producer is forgotten first",
        "core/producers.py",
        "known = self._producers.pop(producer, None)",
        "known = self._producers.get(producer)",
        "tests/core/test_producers.py",
    ),
    Mutant(
        "producer-other-count",
        "another batch under an old number is no duplicate",
        "core/producers.py",
        "if first == sequence and ended == last:",
        "if first == sequence:",
        "tests/core/test_producers.py",
    ),
    Mutant(
        "epoch-end-is-own-start",
        "an epoch ends where the next begins",
        "core/epochs.py",
        """            after = start
""",
        """            after = end
""",
        "tests/core/test_epochs.py",
    ),
    Mutant(
        "stale-part-appended",
        "data of an older epoch is not appended",
        "core/following.py",
        """        if part.epoch != partition.state.epoch:
            # One of an older epoch may come late, on the connection on which the leader was asked anew.
            return False
""",
        "",
        "tests/core/test_following.py tests/core/test_broker.py",
    ),
    Mutant(
        "stale-cut-obeyed",
        "a log is not cut any more to agree with somebody it no longer follows",
        "core/following.py",
        "if not (isinstance(each, cuts) and each.name == name)]",
        "if not isinstance(each, cuts) or each.name == name]",
        "tests/core/test_following.py tests/core/test_broker.py",
    ),
    Mutant(
        "lost-log-is-taken",
        "a follower does not throw committed records away for an empty leader",
        "core/following.py",
        "elif part.offset < partition.high and partition.end > partition.start:",
        "elif part.offset < partition.start and partition.end > partition.start:",
        "tests/core/test_following.py tests/core/test_broker.py",
    ),
    Mutant(
        "leader-by-offset",
        "the leader is the one with the highest epoch, then the longest log",
        "core/transitions.py",
        "(not best or standings[candidate] > standings[best])",
        "(not best or standings[candidate][1] > standings[best][1])",
        "tests/core/test_transitions.py",
    ),
    Mutant(
        "gone-still-count",
        "who went away during a transition does not lead",
        "core/transitions.py",
        """            standings.pop(broker, None)
""",
        """            pass
""",
        "tests/core/test_transitions.py tests/core/test_log_register.py",
    ),
    Mutant(
        "unanswered-in-sync",
        "who did not answer is not in sync with the new leader",
        "core/transitions.py",
        "if member != leader and member in answered]",
        "if member != leader]",
        "tests/core/test_transitions.py",
    ),
    Mutant(
        "restarted-leads-at-once",
        "who comes back first waits for others who may have more",
        "core/transitions.py",
        "if needy and now < self.form_at and not self._complete(needy):",
        "if needy and now < self.form_at and not self.candidates(self._book.state(needy[0])):",
        "tests/core/test_transitions.py",
    ),
    Mutant(
        "epoch-stays",
        "each leader has an epoch of its own",
        "core/transitions.py",
        "leader=leader, epoch=state.epoch + 1, in_sync=in_sync)",
        "leader=leader, in_sync=in_sync)",
        "tests/core/test_transitions.py",
    ),
    Mutant(
        "dry-run-makes",
        "a dry run changes nothing",
        "core/topic_book.py",
        """        if message.dry:
            return
        self.count += 1
""",
        """        self.count += 1
        if message.dry:
            return
""",
        "tests/core/test_topic_book.py",
    ),
    Mutant(
        "dropped-partitions-stay",
        "a deleted topic is gone from the store",
        "core/topic_book.py",
        """            self.new_states[message.topic, number] = None
""",
        """            self.new_states.pop((message.topic, number), None)
""",
        "tests/core/test_topic_book.py",
    ),
    Mutant(
        "grow-counts-all",
        "the cluster holds so many partitions at most",
        "core/topic_book.py",
        """self._check_room(more)
        if not message.dry:""",
        "if not message.dry:",
        "tests/core/test_topic_book.py",
    ),
    Mutant(
        "version-stays",
        "versions of a partition only rise",
        "core/topic_book.py",
        "state = msgspec.structs.replace(state, version=self.state(place).version + 1)",
        "state = msgspec.structs.replace(state, version=self.state(place).version)",
        "tests/core/test_topic_book.py",
    ),
    Mutant(
        "old-disk-in-sync",
        "a broker that came back with another disk is in no set",
        "core/log_register.py",
        """            if known is not None:
                self._forget_disk(name)
""",
        "",
        "tests/core/test_transitions.py -k disk",
    ),
)
