"""Who is in a group and what the members have in common, against a dumb twin that counts anew each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.consumer_membership import Group, GroupState, Member, member_of
from octoloom.core.consumer_messages import GroupError, JoinRequest
from octoloom.core.consumer_records import Contents, group_key

names = st.lists(st.sampled_from(["range", "robin", "sticky"]), min_size=1, unique=True)


def request(*protocols: str, instance: str | None = None) -> JoinRequest:
    metadata = tuple((name, name.encode()) for name in protocols)
    return JoinRequest("g", "", 10, 20, "consumer", metadata, "x", instance, "client", "host")


def member(member_id: str, *protocols: str, instance: str | None = None) -> Member:
    return member_of(member_id, request(*protocols, instance=instance))


@given(st.lists(st.tuples(st.sampled_from(["add", "add", "remove", "update"]), st.integers(0, 3), names)))
def test_protocols_and_sizes_are_counted_right(history: list[tuple[str, int, list[str]]]) -> None:
    group = Group("g", protocol_type="consumer")
    twin: dict[str, list[str]] = {}
    for step, number, protocols in history:
        name = f"m{number}"
        others = [theirs for other, theirs in twin.items() if other != name]
        fits = any(all(protocol in theirs for theirs in others) for protocol in protocols)
        known = group.members.get(name)
        assert group.supports("consumer", tuple((protocol, b"") for protocol in protocols), known) is fits
        if step == "add" and known is None and fits:
            group.add(member(name, *protocols))
            twin[name] = protocols
        elif step == "update" and known is not None and fits:
            group.update(known, request(*protocols))
            twin[name] = protocols
        elif step == "remove" and known is not None:
            group.remove(name)
            del twin[name]
        assert group.size == sum(each.size for each in group.members.values())
        assert group.leader in twin or not twin
        if twin:
            common = [each for each in ("range", "robin", "sticky") if all(each in theirs for theirs in twin.values())]
            votes = [next(each for each in theirs if each in common) for theirs in twin.values()]
            chosen = group.choose_protocol()
            assert chosen in common
            assert votes.count(chosen) == max(votes.count(each) for each in votes)


def test_the_leaders_taste_breaks_a_tie() -> None:
    group = Group("g", protocol_type="consumer")
    group.add(member("a", "range", "robin"))
    group.add(member("b", "robin", "range"))
    assert group.choose_protocol() == "range"
    group.leader = "b"
    assert group.choose_protocol() == "robin"
    group.add(member("c", "range", "robin"))
    assert group.choose_protocol() == "range"


def test_another_protocol_type_does_not_fit() -> None:
    group = Group("g", protocol_type="consumer")
    alone = member("a", "range")
    group.add(alone)
    assert not group.supports("connect", (("range", b""),), None)
    assert group.supports("connect", (("range", b""),), alone)


def test_an_instance_belongs_to_the_last_who_claimed_it() -> None:
    group = Group("g")
    group.add(member("a", "range", instance="i"))
    group.unsynced["a"] = 7
    group.rename(group.members["a"], "b")
    assert group.refusal("a", "i") is GroupError.FENCED_INSTANCE_ID
    assert group.refusal("a", None) is GroupError.UNKNOWN_MEMBER_ID
    assert group.refusal("b", "i") is GroupError.NONE
    assert group.refusal("b", "j") is GroupError.UNKNOWN_MEMBER_ID
    assert group.leader == "b"
    assert group.unsynced == {"b": 7}
    group.remove("b")
    assert group.refusal("b", "i") is GroupError.UNKNOWN_MEMBER_ID
    assert (group.instances, group.unsynced) == ({}, {})


def has_joined(group: Group) -> bool:
    return group.everybody_joined


def test_open_joins_are_counted() -> None:
    group = Group("g")
    first, second = member("a", "range"), member("b", "range")
    group.add(first)
    group.add(second)
    assert group.open_join(first, 1) is None
    assert has_joined(group) is False
    assert group.open_join(first, 2) == 1
    assert group.open_join(second, 3) is None
    assert has_joined(group) is True
    group.pending["c"] = None
    assert has_joined(group) is False
    assert group.close_join(first) == 2
    assert group.close_join(first) is None
    assert group.waiting == 1


def test_a_group_is_read_back_from_its_record() -> None:
    group = Group("g", GroupState.STABLE, 7, "consumer", "range")
    group.add(member("a", "range", "robin", instance="i"))
    group.add(member("b", "robin", "range"))
    group.leader = "b"
    group.members["a"].assignment = b"xyz"
    raw = group.make_record(assigned=True)
    record, _ = Contents([(group_key("g"), raw)]).groups["g"]
    again = Group("g")
    again.restore(record, raw)
    again.state = GroupState.STABLE
    assert again.describe() == group.describe()
    assert again.make_record(assigned=True) == raw
    assert (again.leader, again.size, again.supporters) == (group.leader, group.size, group.supporters)
    assert not any(each.is_new for each in again.members.values())
