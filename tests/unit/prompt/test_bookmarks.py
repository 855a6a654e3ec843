"""Bookmarks: the longest prefix is found, memory is bounded, what goes on from another takes its place."""

from __future__ import annotations

import json
from functools import cache

import pytest

from standfast.policy import NO_OPTIONS, Policy
from standfast.prompt.bookmarks import Bookmarks, Place
from standfast.prompt.dialects import DIALECTS
from standfast.prompt.items import Items
from standfast.prompt.request import Bookmark, bookmark, read

KEY = bytes(32)
DEPTHS = (512, 8_192, 65_536)
HEAD = "h" * 300


@cache
def mark_of(*texts: str) -> Bookmark:
    """The bookmark of a history of these texts."""
    messages = [{"role": "user", "content": text} for text in texts]
    mark = bookmark(read(body(*texts), DIALECTS["openai_chat"], KEY, Items()))
    assert mark is not None
    assert mark.items == len(messages)
    return mark


def body(*texts: str) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text} for text in texts]}).encode()


def place(*texts: str, tip: bytes = b"") -> Place:
    return Place(mark_of(*texts), tip, Policy.LOSSLESS, NO_OPTIONS, {}, ())


def find(places: Bookmarks, *texts: str) -> Place | None:
    return places.find(KEY, "openai_chat", body(*texts))


def keep(places: Bookmarks, *texts: str, tip: bytes = b"") -> Place:
    made = place(*texts, tip=tip)
    places.keep(KEY, "openai_chat", made)
    return made


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_bookmark_is_found_by_a_body_that_goes_on_from_it(depth: int) -> None:
    places, long = Bookmarks(1 << 24), "x" * depth
    kept = keep(places, long, "b")
    assert find(places, long, "b", "c") is kept
    assert find(places, long, "b") is kept
    assert find(places, long, "other") is None
    assert find(places, long) is None
    assert find(places, "y" * depth, "b", "c") is None


def test_a_short_body_is_not_kept() -> None:
    places = Bookmarks(1 << 24)
    keep(places, "a")
    assert find(places, "a", "b") is None


def test_tenants_and_dialects_have_bookmarks_of_their_own() -> None:
    places = Bookmarks(1 << 24)
    kept, grown = keep(places, HEAD * 2, "b"), body(HEAD * 2, "b", "c")
    assert places.find(KEY, "openai_chat", grown) is kept
    assert places.find(bytes([1] * 32), "openai_chat", grown) is None
    assert places.find(KEY, "anthropic", grown) is None


def test_the_longest_of_several_is_found_whatever_the_order() -> None:
    places, stem = Bookmarks(1 << 24), HEAD * 2
    left, right, longest = (keep(places, stem, *t) for t in (("b", "c"), ("b", "d"), ("b", "d", "e")))
    assert find(places, stem, "b", "d", "e", "f") is longest
    assert find(places, stem, "b", "c", "f") is left
    keep(places, stem)
    assert find(places, stem, "b", "d", "e", "f") is longest
    assert find(places, stem, "new") is not right


def test_a_longer_one_takes_the_place_of_those_that_it_goes_on_from() -> None:
    places, stem = Bookmarks(1 << 24), HEAD * 2
    keep(places, stem, "b")
    keep(places, stem, "b", "c")
    assert find(places, stem, "b", "other") is None
    again = keep(places, stem, "b", "c", tip=b"again")
    assert find(places, stem, "b", "c", "d") is again


def test_a_longer_one_of_another_depth_leaves_the_shorter_one() -> None:
    places = Bookmarks(1 << 24)
    short = keep(places, HEAD * 2)
    long = keep(places, HEAD * 2, "x" * 8_192)
    assert find(places, HEAD * 2, "x" * 8_192, "c") is long
    assert find(places, HEAD * 2, "y" * 9_000) is short
    assert find(places, HEAD * 2, "c") is short


def test_sixteen_forks_of_a_head_are_kept() -> None:
    places, stem = Bookmarks(1 << 30), HEAD * 2
    for i in range(20):
        keep(places, stem, f"fork {i}.")
    found = [find(places, stem, f"fork {i}.", "c") is not None for i in range(20)]
    assert found == [False] * 4 + [True] * 16


def test_one_that_goes_on_from_the_oldest_of_sixteen_takes_its_place_alone() -> None:
    places, stem = Bookmarks(1 << 30), HEAD * 2
    for i in range(16):
        keep(places, stem, f"fork {i}.")
    keep(places, stem, "fork 0.", "c")
    assert all(find(places, stem, f"fork {i}.", "c", "d") for i in range(16))
    assert find(places, stem, "fork 0.", "other") is None


def test_the_head_that_was_used_least_recently_is_forgotten_first() -> None:
    heads = {name: name * 800 for name in "abcd"}
    each = len(mark_of(heads["a"], "b").prefix) + 200 * 2 + 1000
    places = Bookmarks(3 * each)
    for name in "abc":
        keep(places, heads[name], "b")
    assert find(places, heads["a"], "b", "c") is not None
    keep(places, heads["d"], "b")
    assert [name for name in "abcd" if find(places, heads[name], "b", "c")] == ["a", "c", "d"]


def test_memory_is_bounded_over_heads() -> None:
    places = Bookmarks(20_000)
    names = [f"{i:03}" * 200 for i in range(50)]
    for name in names:
        keep(places, name, "b")
    found = [find(places, name, "b", "c") is not None for name in names]
    assert 5 <= sum(found) <= 12
    assert found == sorted(found)
    keep(places, "z" * 100_000)
    assert find(places, "z" * 100_000, "b") is not None
    assert not any(find(places, name, "b", "c") for name in names)
