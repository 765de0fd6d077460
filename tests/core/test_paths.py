"""The tree of paths against the sets of causes."""

from __future__ import annotations

from octoloom.core.paths import Paths
from octoloom.core.steps import Step
from tests.core.order_world import Id, Run, Site, id_of, sites


def test_one_chain_is_one_path() -> None:
    paths = Paths()
    assert [paths.follow(place, stamp) for place, stamp in [(0, [1, 0]), (1, [1, 1]), (1, [1, 2]), (0, [2, 2])]] == [
        (1, False)
    ] * 4
    assert paths.leaves() == {0: (2, 1)}


def test_branches_and_a_join() -> None:
    a, b, c = sites("causal", concurrent="paths")
    d = Site("causal", "c", concurrent="paths")
    root = a.send()
    b.take(root)
    c.take(root)
    left, right = a.send(), b.send()
    on_the_left, on_the_right = a.send(), b.send()
    c.take(left, right, on_the_right, on_the_left)
    join = c.send()
    assert [delivery.path for delivery in c.delivered] == [1, 1, 2, 2, 1]
    a.take(right, on_the_right, join)
    # At a its own two casts are path 1, and the join goes on with it.
    assert [delivery.path for delivery in a.delivered] == [2, 2, 1]
    assert a.send().stamp == [4, 2, 1]
    d.take(root, right, left)
    assert [delivery.path for delivery in d.delivered] == [1, 1, 2]


def test_a_new_path_is_a_step() -> None:
    told: list[Step] = []
    a, b, _ = sites("causal")
    c = Site("causal", "c", concurrent="paths", step=told.append)
    c.take(a.send(), b.send())
    news = [step for step in told if step.name == "VectorTimeStampCopiedAndNewBufferCreated"]
    assert [(step.sender, step.number, step.text) for step in news] == [("b", 1, "path 2")]


def test_paths_against_full_histories() -> None:
    """A leaf is a cast that nothing follows; its path is that of the lowest of the leaves that it follows itself."""
    for seed in range(400):
        run = Run(seed, "causal", concurrent="paths")
        leaves: list[dict[Id, int]] = [{} for _ in run.sites]
        newest = [0 for _ in run.sites]
        for turn in range(150):
            before = [(len(site.sent), len(site.delivered)) for site in run.sites]
            run.step(may_send=turn < 30)
            for place, site in enumerate(run.sites):
                sent, delivered = before[place]
                news: list[tuple[Id, int | None]] = [(id_of(cast), None) for cast in site.sent[sent:]]
                news += [(id_of(each.cast), each.path) for each in site.delivered[delivered:]]
                for cast, path in news:
                    followed = [leaf for leaf in leaves[place] if leaf in run.causes[cast]]
                    expected = min([leaves[place].pop(leaf) for leaf in followed], default=newest[place] + 1)
                    newest[place] = max(newest[place], expected)
                    leaves[place][cast] = expected
                    assert path in (None, expected)
                    assert len(leaves[place]) <= len(run.sites)
            if not run.flying:
                break
        assert max(newest) <= len(run.causes)
