"""What can go wrong between a client and the brokers, as errors that say what to do.

LogError
├── Unreachable         no broker answers
├── Unwanted            the broker does not serve what is asked, or is no broker
├── TimedOut            an answer did not come in time
├── UnknownTopic        no such topic or partition, as far as the brokers know
├── NotLeader           the broker does not lead the partition (any more), or nobody does right now
├── NotEnoughReplicas   too few replicas are in sync to keep the promise
├── OutOfRange          the offset is not in the log (any more)
├── Damaged             what was fetched is not what was written
├── TooLarge            a batch is larger than the brokers take
├── BrokenSequence      batches of this producer came with a gap, or it is unknown: it has to begin anew
├── Fenced              a newer producer has taken over this one's id
├── TopicExists
├── NotMember           a consumer group does not count this consumer among its members (any more)
│   └── Rebalancing     or is about to divide its partitions anew
├── UnknownGroup        no such consumer group
└── Refused             any other code that a broker answered

`retriable` says that the same call may succeed later by itself. `ambiguous` says that a batch may have been written
all the same: only a tagged batch is sent again then.
"""

from __future__ import annotations

from octoloom.core.errors import OctoloomError
from octoloom.wire.kafka.errors import ErrorCode


class LogError(OctoloomError):
    """What the log's client raises. `retriable`: it may pass; `ambiguous`: what was asked may have been done."""

    retriable = False
    ambiguous = False


class Unreachable(LogError):  # noqa: N818
    retriable = True

    def __init__(self, text: str, ambiguous: bool = False) -> None:
        super().__init__(text)
        self.ambiguous = ambiguous


class Unwanted(LogError):  # noqa: N818
    pass


class TimedOut(LogError):  # noqa: N818
    retriable = True
    ambiguous = True


class UnknownTopic(LogError):  # noqa: N818
    # A topic that was just made is not known everywhere at once.
    retriable = True


class NotLeader(LogError):  # noqa: N818
    retriable = True


class NotEnoughReplicas(LogError):  # noqa: N818
    retriable = True


class OutOfRange(LogError):  # noqa: N818
    pass


class Damaged(LogError):  # noqa: N818
    pass


class TooLarge(LogError):  # noqa: N818
    pass


class BrokenSequence(LogError):  # noqa: N818
    pass


class Fenced(LogError):  # noqa: N818
    pass


class TopicExists(LogError):  # noqa: N818
    pass


class NotMember(LogError):  # noqa: N818
    """What a member wanted to do is for the members of now. A consumer joins again by itself."""


class Rebalancing(NotMember):
    """A member that has not been left behind yet."""


class UnknownGroup(LogError):  # noqa: N818
    pass


class Refused(LogError):  # noqa: N818
    pass


class Busy(Refused):
    """A refusal that passes by itself."""

    retriable = True


_NOT_MEMBER = "{subject} goes on without this consumer, which was silent or busy for too long: read on to join again"

_KINDS: dict[int, tuple[type[LogError], str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        UnknownTopic,
        "{subject} does not exist: see `octoloom topic list`, or make it with `octoloom topic create`",
    ),
    ErrorCode.LEADER_NOT_AVAILABLE: (NotLeader, "nobody leads {subject} right now: see `octoloom topic describe`"),
    ErrorCode.NOT_LEADER: (NotLeader, "the broker that was asked does not lead {subject}: it is found again by itself"),
    ErrorCode.FENCED_LEADER_EPOCH: (NotLeader, "{subject} has a newer leader: it is found again by itself"),
    ErrorCode.UNKNOWN_LEADER_EPOCH: (
        NotLeader,
        "the broker has not heard of the newest leader of {subject}: try again",
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS: (
        NotEnoughReplicas,
        "too few replicas of {subject} are in sync: see `octoloom topic describe`, and bring brokers back",
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        NotEnoughReplicas,
        "replicas of {subject} fell out of sync before they had it all: see `octoloom topic describe`",
    ),
    ErrorCode.OFFSET_OUT_OF_RANGE: (
        OutOfRange,
        "the offset is not in {subject}: start at the beginning or at the end, see `octoloom topic describe`",
    ),
    ErrorCode.MESSAGE_TOO_LARGE: (TooLarge, "the batch is too large for {subject}: send fewer or smaller records"),
    ErrorCode.RECORD_LIST_TOO_LARGE: (TooLarge, "the batch is too large for {subject}: send smaller batches"),
    ErrorCode.OUT_OF_ORDER_SEQUENCE: (
        BrokenSequence,
        "{subject} lacks an earlier batch of this producer: begin with a new producer id",
    ),
    ErrorCode.UNKNOWN_PRODUCER_ID: (
        BrokenSequence,
        "{subject} does not know this producer: begin with a new producer id",
    ),
    ErrorCode.INVALID_PRODUCER_EPOCH: (Fenced, "a newer producer with this id writes to {subject}: stop this one"),
    ErrorCode.PRODUCER_FENCED: (Fenced, "a newer producer with this id writes to {subject}: stop this one"),
    ErrorCode.TOPIC_ALREADY_EXISTS: (TopicExists, "{subject} exists already: see `octoloom topic describe`"),
    ErrorCode.UNKNOWN_MEMBER_ID: (NotMember, _NOT_MEMBER),
    ErrorCode.ILLEGAL_GENERATION: (NotMember, _NOT_MEMBER),
    ErrorCode.REBALANCE_IN_PROGRESS: (Rebalancing, "{subject} divides its partitions anew: read on to take part"),
    ErrorCode.GROUP_ID_NOT_FOUND: (UnknownGroup, "{subject} does not exist: see `octoloom topic groups`"),
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        Refused,
        "the members of {subject} divide partitions in another way: give them the strategy `range`",
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        Refused,
        "the brokers take no session of this length for {subject}: choose 6 s to 30 min",
    ),
    ErrorCode.REQUEST_TIMED_OUT: (TimedOut, "the brokers could not do it in time for {subject}: try again"),
    ErrorCode.NETWORK_EXCEPTION: (Unreachable, "the broker lost its connection over {subject}: try again"),
}

_PASSING = (
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
)


def error_of(code: int, subject: str, detail: str | None = None) -> LogError:
    """The error that a code stands for, about a topic or partition."""
    if code in _KINDS:
        kind, text = _KINDS[code]
        error = kind(text.format(subject=subject))
        # A batch that reached the leader's log may yet be committed, though its sender was told otherwise.
        error.ambiguous = kind.ambiguous or code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return error
    name = ErrorCode(code).name if code in _NUMBERS else f"code {code}"
    text = f"the broker refused it for {subject}: {name}{f', {detail}' if detail else ''}"
    return Busy(text) if code in _PASSING else Refused(text)


_NUMBERS = frozenset(int(code) for code in ErrorCode)
