from __future__ import annotations

import random

import pytest
from kv_states import NAMESPACE, tokens_of

from standfast.errors import RecordBroken
from standfast.store.contexts import Context, Heads, Latest, context_key, heads_of, to_record
from standfast.store.names import runs
from standfast.store.record import Record, Seal, pack, unpack


def context(name: int, *tokens: int, heads: int = 1) -> Context:
    ids = tokens_of(tokens)
    names = tuple((bytes([name, n]) * 16, n) for n in reversed(range(heads)))
    return Context(NAMESPACE, ids, tuple(run.key for run in runs(NAMESPACE, ids, 2)), names)


def sizes(given: Context, size: int = 10) -> dict[bytes, int]:
    return dict.fromkeys(given.keys, size)


def test_blocks_are_counted_once_however_many_contexts_hold_them() -> None:
    latest = Latest(9, 1000)
    a, b = context(1, 1, 2, 3), context(2, 1, 2, 4)
    assert latest.keep(a, sizes(a)) == latest.keep(b, sizes(b)) == []
    assert latest.used == 30
    assert latest.drop([a.key]) == [a.keys[1]]
    assert latest.drop([a.key]) == []
    assert latest.drop([b.key]) == list(b.keys)
    assert (latest.used, len(latest)) == (0, 0)


def test_the_least_recently_used_goes_first_by_count_and_by_bytes() -> None:
    for latest in (Latest(2, 1000), Latest(9, 25)):
        a, b, c = context(1, 1), context(2, 2), context(3, 3)
        latest.keep(a, sizes(a))
        latest.keep(b, sizes(b))
        latest.touch(a.key)
        assert latest.keep(c, sizes(c)) == list(b.keys)
    big = context(4, 9)
    alone = Latest(9, 5)
    assert alone.keep(big, sizes(big)) == []  # one must be kept, whatever its size


def test_the_books_are_right_whatever_comes_and_goes() -> None:
    rng = random.Random(1)
    latest, known = Latest(5, 200), dict[bytes, Context]()
    for _ in range(2000):
        one = context(rng.randrange(9), *(rng.randrange(2) for _ in range(rng.randrange(1, 9))))
        if rng.random() < 0.3:
            latest.drop([one.key])
        else:
            gone = latest.keep(one, sizes(one))
            assert not any(key in latest for key in gone)
            known[one.key] = one
        alive = [c for key, c in known.items() if latest.keys_of(key)]
        held = {key for c in alive for key in latest.keys_of(c.key)}
        assert latest.used == 10 * len(held)
        assert len(latest) == len(alive) <= 5


def test_a_context_is_archived_and_comes_back() -> None:
    made = context(1, 1, 2, 3, heads=3)
    record = to_record(made)
    data = b"".join(bytes(piece) for piece in pack(record, Seal.FORGERY))
    back = unpack(data, NAMESPACE, context_key(NAMESPACE, made.name))
    assert heads_of(back) == made.heads
    assert back.run.tokens.tolist() == [1, 2, 3]


@pytest.mark.parametrize("body", [b"", b"x" * 35])
def test_heads_that_are_none(body: bytes) -> None:
    record = to_record(context(1, 1))
    with pytest.raises(RecordBroken, match="body"):
        heads_of(Record(record.kind, 0, NAMESPACE, record.run, len(body), memoryview(body)))


def test_the_longest_head_decides() -> None:
    heads = Heads()
    short, long = context(1, 1), context(2, 1, 2, 3)
    a, b, c = (bytes([n]) * 32 for n in range(3))
    heads.add(Context(NAMESPACE, short.tokens, short.keys, ((a, 1),)))
    heads.add(Context(NAMESPACE, long.tokens, long.keys, ((a, 1), (b, 2))))
    found = heads.find(NAMESPACE, [a, b, c])
    assert found is not None
    assert (found[0].tokens.tolist(), found[1:]) == ([1, 2, 3], (3, 2))
    assert heads.find(bytes(32), [a]) is None


def test_names_are_bounded() -> None:
    heads = Heads(limit=2)
    for n in range(4):
        one = context(n, n)
        heads.add(one)
    assert [heads.find(NAMESPACE, [bytes([n, 0]) * 16]) is not None for n in range(4)] == [False, False, True, True]
