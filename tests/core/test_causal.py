"""Causal order against a dumb twin that keeps full histories, and the scenes that the slides tell."""

from __future__ import annotations

import random

import pytest

from octoloom.core.causal import ConcurrentMessages
from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.group_messages import Cast
from octoloom.core.steps import Step
from tests.core.order_world import Id, Run, Site, Twin, id_of, sites


def test_the_lunch_example() -> None:
    """Done? Lunch? Yes, No. Cathy never sees an answer before its question, whichever link is slow."""
    alice, bob, cathy = sites("causal")
    done = alice.send()
    assert bob.take(done) == ["a1"]
    lunch = bob.send()
    assert cathy.take(lunch) == []
    assert (cathy.order.held, cathy.order.waits_for()) == (1, ("a", 1))
    assert cathy.take(done) == ["a1", "b1"]
    assert cathy.send().stamp == [1, 1, 1]
    assert [delivery.concurrent for delivery in cathy.delivered] == [(), ()]


def test_several_causes() -> None:
    a, b, c = sites("causal")
    d, e = a.send(), b.send()
    c.take(d, e)
    answer = c.send()
    f = Site("causal", "a", "abc")
    f.send()
    assert f.take(answer) == []
    assert f.order.waits_for() == ("b", 1)
    assert f.take(e) == ["b1", "c1"]


def test_a_stamp_is_copied_at_the_send() -> None:
    a, b, _ = sites("causal")
    first = a.send()
    a.take(b.send())
    second = a.send()
    assert (first.stamp, second.stamp) == ([1, 0, 0], [2, 1, 0])


def test_what_is_concurrent_is_named_once() -> None:
    a, b, c = sites("causal", counts={"a": 10, "b": 20})
    mine = c.send()
    ones = [a.send(), a.send(), a.send()]
    b.take(ones[0])
    other = b.send()
    c.take(*ones, other)
    assert [delivery.concurrent for delivery in c.delivered] == [
        (("c", 1, 1),),
        (("c", 1, 1),),
        (("c", 1, 1),),
        (("a", 12, 13), ("c", 1, 1)),
    ]
    a.take(mine, other)
    assert [delivery.concurrent for delivery in a.delivered] == [(("a", 11, 13),), (("a", 12, 13), ("c", 1, 1))]


@pytest.mark.parametrize("first_seed", range(0, 2_000, 500))
def test_against_full_histories(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 500):
        run = Run(seed, "causal")
        for turn in range(300):
            if turn >= 40 and not run.flying:
                break
            before = [len(site.delivered) for site in run.sites]
            arrival = run.step(may_send=turn < 40)
            if arrival is not None:
                place, cast = arrival
                twin, site = run.twins[place], run.sites[place]
                twin.take(cast)
                # The same casts are delivered at once, though what is released together may differ in its sequence.
                assert sorted(site.past()) == sorted(twin.past)
                assert site.order.held == len(twin.waiting)
                check_order_and_pairs(site, run.causes, before[place])
        assert all(site.order.held == 0 for site in run.sites)
        assert all(len(site.past()) == len(run.causes) for site in run.sites)


def check_order_and_pairs(site: Site, causes: dict[Id, frozenset[Id]], start: int) -> None:
    own = [id_of(cast) for cast in site.sent]
    for turn in range(start, len(site.delivered)):
        delivery, earlier = site.delivered[turn], [*own, *site.ids()[:turn]]
        cast = id_of(delivery.cast)
        assert causes[cast] <= set(earlier)
        named = [(member, n) for member, first, last in delivery.concurrent for n in range(first, last + 1)]
        assert sorted(named) == sorted(each for each in earlier if each not in causes[cast])
        assert all(cast not in causes[each] for each in named)


def test_the_check_bites() -> None:
    """With an order that is weaker, causes come late."""
    run = Run(3, "fifo")
    run.to_the_end()
    complaints = 0
    for site in run.sites:
        try:
            check_order_and_pairs(site, run.causes, 0)
        except AssertionError:
            complaints += 1
    assert complaints


@pytest.mark.parametrize("shape", ["reversed", "by sender", "blocks reversed", "every other"])
def test_hostile_arrivals(shape: str) -> None:
    dice = random.Random(shape)
    members = sites("causal", "abcd")
    casts: list[Cast] = []
    heard = dict.fromkeys("abc", 0)
    for _ in range(800):
        # Each has heard all up to some place not long ago.
        sender = dice.choice(members[:3])
        start, heard[sender.me] = heard[sender.me], dice.randint(heard[sender.me], len(casts))
        sender.take(*[cast for cast in casts[start : heard[sender.me]] if cast.sender != sender.me])
        casts.append(sender.send())
    hostile = {
        "reversed": casts[::-1],
        "by sender": sorted(casts, key=lambda cast: cast.sender, reverse=True),
        "blocks reversed": [cast for start in range(0, 800, 50) for cast in casts[start : start + 50][::-1]],
        "every other": casts[1::2] + casts[::2],
    }[shape]
    reader = members[3]
    reader.take(*hostile)
    assert reader.order.held == 0
    stamps = {id_of(cast): cast.stamp for cast in casts}
    for turn, (member, number) in enumerate(reader.ids()):
        # Nothing that was delivered earlier counts this cast.
        place = "abc".index(member)
        assert all(stamps[earlier][place] < number for earlier in reader.ids()[:turn])
    assert len(reader.ids()) == 800


def test_bad_stamps_change_nothing() -> None:
    a, b, c = sites("causal", counts={"a": 3, "b": 3, "c": 3})
    good = a.send()
    for stamp in (
        [],
        [4, 3],
        [4, 3, 3, 3],
        [5, 3, 3],
        [3, 3, 3],
        [4, -1, 3],
        [4, 2, 3],
        [4, 3, 2],
        [4, 3, 4],
    ):
        with pytest.raises(ProtocolError, match="bad-stamp"):
            c.take(Cast(1, "a", 4, [], stamp))
    assert (c.order.held, c.delivered, c.send().stamp) == (0, [], [3, 3, 4])
    assert c.take(good) == ["a4"]
    assert b.take(good) == ["a4"]


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(UsageError, match="no policy 'ignore' for concurrent messages: use one of flag, raise, paths"):
        Site("causal", "a", concurrent="ignore")


def test_raise_takes_nothing_of_what_is_concurrent() -> None:
    a, b, _ = sites("causal")
    c = Site("causal", "c", concurrent="raise")
    one, other = a.send(), b.send()
    c.take(one)
    for _ in range(2):
        with pytest.raises(ConcurrentMessages, match="cast 1 of b and cast 1 of a are concurrent") as caught:
            c.take(other)
        assert (caught.value.later, caught.value.earlier) == (("b", 1), ("a", 1))
    assert (c.texts(), c.order.held) == (["a1"], 0)
    assert c.take(a.send()) == ["a2"]


def test_raise_looks_ahead_at_what_a_cast_would_release() -> None:
    """a1 would release b1 and then d1, which is concurrent with b1: so a1 is not taken, and all is as before."""
    a, b, d = sites("causal", "abd")
    c = Site("causal", "c", "abd" + "c", concurrent="raise")
    first = a.send()
    b.take(first)
    d.take(first)
    wide = [Cast(cast.epoch, cast.sender, cast.number, [], [*cast.stamp, 0]) for cast in (first, b.send(), d.send())]
    assert c.take(wide[1], wide[2]) == []
    before = (c.order.held, c.order.waits_for())
    for _ in range(2):
        with pytest.raises(ConcurrentMessages, match="cast 1 of d and cast 1 of b are concurrent"):
            c.take(wide[0])
        assert (c.order.held, c.order.waits_for(), c.texts()) == (*before, [])


def test_raise_delivers_a_chain_in_any_sequence_of_arrival() -> None:
    for seed in range(200):
        dice = random.Random(seed)
        members = sites("causal", "abcd", concurrent="raise")
        casts: list[Cast] = []
        for _ in range(20):
            sender = dice.choice(members[:3])
            sender.take(*[cast for cast in casts if cast.sender != sender.me and id_of(cast) not in sender.ids()])
            casts.append(sender.send())
        arrivals = dice.sample(casts, len(casts))
        members[3].take(*arrivals)
        assert members[3].ids() == [id_of(cast) for cast in casts]


def test_raise_against_full_histories() -> None:
    """A cast is taken if neither it nor what it would release has anything concurrent in the past."""
    refused = 0
    for seed in range(300):
        run = Run(seed, "causal")
        run.to_the_end(sends=12)
        reader, twin = (
            Site("causal", "z", [*(site.me for site in run.sites), "z"], concurrent="raise"),
            Twin(run.causes),
        )
        casts = [cast for site in run.sites for cast in site.sent]
        for cast in run.dice.sample(casts, len(casts)):
            would, before = twin.copy(), (reader.ids(), reader.order.held, reader.order.waits_for())
            is_wrong = any(each not in run.causes[id_of(cast)] for each in twin.past)
            is_wrong = any(found for _, found in would.take(id_of(cast))) or is_wrong
            try:
                reader.take(Cast(1, cast.sender, cast.number, [], [*cast.stamp, 0]))
            except ConcurrentMessages as error:
                assert is_wrong
                check_pair(error, run.causes)
                assert (reader.ids(), reader.order.held, reader.order.waits_for()) == before
                refused += 1
            else:
                assert not is_wrong
                twin = would
                assert sorted(reader.ids()) == sorted(twin.past)
                assert reader.order.held == len(twin.waiting)
    assert refused > 300


def check_pair(error: ConcurrentMessages, causes: dict[Id, frozenset[Id]]) -> None:
    assert error.later != error.earlier
    assert error.earlier not in causes[error.later]
    assert error.later not in causes[error.earlier]


def test_forged_casts_that_look_like_the_next() -> None:
    a, b, c = sites("causal")
    one = a.send()
    b.take(one)
    answer = b.send()
    c.take(answer)
    # The same number again, now with a stamp that lacks nothing.
    with pytest.raises(ProtocolError, match="old-number"):
        c.take(Cast(1, "b", 1, [], [0, 1, 0]))
    with pytest.raises(ProtocolError, match="own-cast"):
        c.take(Cast(1, "c", 1, [], [0, 0, 1]))
    assert (c.take(one), c.order.held, c.send().stamp) == (["a1", "b1"], 0, [1, 1, 1])


def test_the_steps_name_what_is_concurrent() -> None:
    told: list[Step] = []
    a, b, _ = sites("causal")
    c = Site("causal", "c", step=told.append)
    c.take(a.send(), b.send())
    assert [step.name for step in told[4:]] == [
        "VectorTimeStampedMessageReceived",
        "VectorTimeStampedMessageDelivered",
        "VectorTimeStampedMessageReceived",
        "ConcurrentVectorTimeStampedMessageDetected",
        "VectorTimeStampedMessageDelivered",
    ]
    assert told[7].text == "with cast 1 of a"


def test_the_twin_itself() -> None:
    twin = Twin({("a", 1): frozenset(), ("b", 1): frozenset({("a", 1)}), ("c", 1): frozenset()})
    assert twin.take(("b", 1)) == []
    assert twin.take(("c", 1)) == [(("c", 1), [])]
    assert twin.take(("a", 1)) == [(("a", 1), [("c", 1)]), (("b", 1), [("c", 1)])]
