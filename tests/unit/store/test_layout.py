from __future__ import annotations

import numpy as np
import pytest
from kv_states import LAYOUT, body_of, states, tokens_of

from standfast.errors import LayoutUnknown
from standfast.store.layout import Layout, Plane


def test_another_layout_has_another_id() -> None:
    planes = LAYOUT.planes
    others = [
        Layout("other", planes, 16),
        Layout("test 1", planes, 32),
        Layout("test 1", planes[::-1], 16),
        Layout("test 1", (planes[0], Plane("v", "bf16", 3, 2, 4)), 16),
        Layout("test 1", (planes[0], Plane("v", "f16", 3, 4, 2)), 16),
    ]
    assert len({layout.id for layout in (LAYOUT, *others)}) == 6
    assert LAYOUT.token_bytes == 2 * 3 * 8 * 2


def test_arrays_are_views_of_the_planes() -> None:
    state = states(tokens_of(range(5)))
    body = memoryview(body_of(state)(0, 5))
    k, v = LAYOUT.arrays(body, 5)
    assert k.shape == v.shape == (3, 5, 2, 4)
    assert np.array_equal(v.view(np.uint16).reshape(3, 5, 8), state[:, 1].transpose(1, 0, 2))
    assert k.base is not None
    with pytest.raises(LayoutUnknown, match="5 tokens"):
        LAYOUT.arrays(body[:-1], 5)


@pytest.mark.parametrize("first", [1, 4, 5])
def test_a_cut_is_the_state_of_the_first_tokens(first: int) -> None:
    state = states(tokens_of(range(5)))
    pieces = LAYOUT.cut(memoryview(body_of(state)(0, 5)), 5, first)
    assert b"".join(bytes(piece) for piece in pieces) == body_of(state)(0, first)
