"""What the client changed in old turns and is put back; and that all of several changes are told."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest
from unit.prompt.talking import PROSE, Session, anthropic, chat, result, sent, use, user

from standfast.policy import Option, Policy
from standfast.prompt import media
from standfast.prompt.media import Pictures
from standfast.prompt.window import HELD_LEAST

Q = {"role": "user", "content": "q"}
MORE: list[Any] = [{"role": "assistant", "content": "k"}, {"role": "user", "content": "n"}]


def text(words: str) -> Any:
    return {"type": "text", "text": words}


def responses(items: list[Any]) -> Any:
    return {"model": "m", "instructions": PROSE, "input": items}


def found(plan: Any) -> list[tuple[str, str, bool]]:
    return [(d.cause, d.path, d.repaired) for d in plan.diagnosis.drifts]


def message(role: str, *blocks: Any) -> Any:
    return {"role": role, "content": list(blocks)}


def png(colour: int = 7, *, level: int = 6, size: int = 8) -> str:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (size, size), (colour, 2, 3)).save(out, "PNG", compress_level=level)
    return base64.b64encode(out.getvalue()).decode()


def image(data: str, kind: str = "anthropic") -> Any:
    if kind == "anthropic":
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    url = f"data:image/png;base64,{data}"
    return (
        {"type": "image_url", "image_url": {"url": url}}
        if kind == "chat"
        else {"type": "input_image", "image_url": url}
    )


class TestPictures:
    @pytest.mark.parametrize("kind", ["anthropic", "chat", "responses"])
    def test_the_same_pixels_go_out_in_the_bytes_first_sent(self, kind: str) -> None:
        assert png(level=0) != png(level=9)
        words = {"type": "input_text" if kind == "responses" else "text", "text": "What is it?"}
        talks = [
            [message("user", words, image(png(level=level), kind)), *MORE[: 2 * n]] for n, level in enumerate((0, 9))
        ]
        make: Any = {"anthropic": anthropic, "chat": chat, "responses": responses}[kind]
        session = Session({"anthropic": "anthropic", "chat": "openai_chat", "responses": "openai_responses"}[kind])
        for talk in talks:
            plan = session.send(make(talk, PROSE) if kind == "anthropic" else make(talk))
        assert session.failures == []
        where = "input" if kind == "responses" else "messages"
        assert found(plan) == [("H8", f"{where}[0].content[1]", True)]
        assert sent(plan)[where][0] == talks[0][0]
        more = [*talks[1], {"role": "assistant", "content": "k2"}, {"role": "user", "content": "n2"}]
        plan = session.send(make(more, PROSE) if kind == "anthropic" else make(more))
        assert sent(plan)[where][0] == talks[0][0]

    def test_another_picture_stays(self) -> None:
        session = Session("anthropic")
        session.send(anthropic([message("user", text("see"), image(png(7)))], PROSE))
        plan = session.send(anthropic([message("user", text("see"), image(png(8))), *MORE], PROSE))
        assert found(plan) == [("H8", "messages[0].content[1]", False)]
        assert plan.diagnosis.repair == "report"
        assert not plan.changed

    @pytest.mark.parametrize(
        "data",
        ["", "AAAA", "no base64!", base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"x" * 40).decode(), png(size=1)[:40]],
    )
    def test_what_is_no_picture_is_no_other_one(self, data: str) -> None:
        assert not Pictures().same(image(png()), image(data))
        assert not Pictures().same(image(data), image(data + "AAAA"))

    def test_what_stands_beside_it_counts(self) -> None:
        low, high = ({"type": "input_image", "image_url": f"data:image/png;base64,{png(level=n)}"} for n in (1, 9))
        assert Pictures().same(low, high)
        assert not Pictures().same({**low, "detail": "low"}, {**high, "detail": "high"})
        for odd in (None, 3, {}, {"image_url": 3}, {"source": {"type": "url", "url": "https://x"}}):
            assert not Pictures().same(odd, low)

    def test_a_bomb_is_not_opened(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert not Pictures(allowance=10).same(image(png(level=0)), image(png(level=9)))
        monkeypatch.setattr(media, "MOST_BYTES", 10)
        assert not Pictures().same(image(png(level=0)), image(png(level=9)))


PIECES = [
    ([user("one"), user("two")], [user("onetwo")]),
    ([user("one"), user("two")], [user("one\n\ntwo")]),
    ([user("one\ntwo")], [user("one"), user("two")]),
    ([message("user", text("one")), message("user", text("two"))], [message("user", text("one"), text("two"))]),
    ([message("user", text("one"), text("two"))], [message("user", text("one")), message("user", text("two"))]),
]


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
@pytest.mark.parametrize(("before", "after"), PIECES, ids=range(len(PIECES)))
def test_messages_go_out_in_the_pieces_first_sent(dialect: str, before: list[Any], after: list[Any]) -> None:
    session = Session(dialect)
    make = (lambda m: anthropic(m, PROSE)) if dialect == "anthropic" else chat
    start = [Q, {"role": "assistant", "content": "yes?"}]
    session.send(make([*start, *before]))
    talk = [*start, *after]
    for n in range(2):
        talk = [*talk, {"role": "assistant", "content": f"k{n}"}, {"role": "user", "content": f"n{n}"}]
        plan = session.send(make(talk))
        assert session.failures == []
        if n == 0:
            assert [(cause, repaired) for cause, _, repaired in found(plan)] == [("H11", True)]
        assert sent(plan)["messages"][2 : 2 + len(before)] == before
        assert len(sent(plan)["messages"]) == 2 + len(before) + 2 * n + 2


def test_attachments_go_back_to_where_they_were() -> None:
    file = text("<file>a.py: def f(): pass</file>")
    before = [message("user", text("read it"), file), message("assistant", text("k")), message("user", text("and?"))]
    after = [message("user", text("read it")), message("assistant", text("k")), message("user", text("and?"), file)]
    session = Session("anthropic")
    session.send(anthropic(before, PROSE))
    plan = session.send(anthropic([*after, *MORE], PROSE))
    assert found(plan) == [("H10", "messages[0].content[1]", True)]
    assert sent(plan)["messages"][:3] == before
    gone = Session("anthropic")
    gone.send(anthropic(before, PROSE))
    plan = gone.send(anthropic([after[0], *after[1:2], message("user", text("and?")), *MORE], PROSE))
    assert [repaired for _, _, repaired in found(plan)] == [False]


LONG = "line of a log that nobody reads\n" * 60
PAST = [Q, message("assistant", use("i")), message("user", result("i", LONG)), message("assistant", text("k"))]
PRUNED = [*PAST[:2], message("user", result("i", "[removed]")), PAST[3]]


class TestWindow:
    def of(self, *options: Option) -> Session:
        return Session("anthropic", Policy.LOSSLESS, *options)

    @pytest.mark.parametrize("options", [(), (Option.WINDOW,)])
    def test_a_pruned_result_goes_out_whole_where_that_is_allowed(self, options: tuple[Option, ...]) -> None:
        session = self.of(*options)
        session.send(anthropic([*PAST, user("n")], PROSE))
        plan = session.send(anthropic([*PRUNED, user("n"), *MORE], PROSE))
        assert found(plan) == [("H7", "messages[2].content[0]", bool(options))]
        assert (LONG in str(sent(plan)["messages"][2]["content"][0]["content"])) is bool(options)
        plan = session.send(anthropic([*PRUNED, user("n"), *MORE, *MORE], PROSE))
        assert (sent(plan)["messages"][2]["content"][0]["content"] == LONG) is bool(options)

    def test_turns_that_were_cut_off_go_out_again(self) -> None:
        session = self.of(Option.WINDOW)
        session.send(anthropic([*PAST, user("n")], PROSE))
        plan = session.send(anthropic([PAST[3], user("n"), *MORE], PROSE))
        assert [d[0] for d in found(plan)] == ["H7"]
        assert sent(plan)["messages"][:5] == [*PAST, user("n")]

    def test_no_more_is_held_back_than_half_of_what_is_sent(self) -> None:
        huge = "x" * (HELD_LEAST + 1000)
        session = self.of(Option.WINDOW)
        session.send(anthropic([*PAST[:2], message("user", result("i", huge)), PAST[3], user("n")], PROSE))
        plan = session.send(anthropic([*PRUNED, user("n"), *MORE], PROSE))
        assert found(plan) == [("H7", "messages[2].content[0]", False)]
        assert not plan.changed


def test_every_change_of_a_history_is_told() -> None:
    def turn(n: int, *, said: str = "", arguments: Any = None) -> list[Any]:
        call = {**use(f"i{n}"), "input": arguments or {"a": n, "b": 2}}
        return [
            message("assistant", text(f"looking {n}"), call),
            message("user", result(f"i{n}", said or f"found {n}: {LONG}")),
            message("assistant", text(f"It says {n}.")),
            message("user", text(f"go on {n}"), text("<reminder>be kind</reminder>")),
        ]

    before = [Q, *turn(1), *turn(2), *turn(3)]
    after = [Q, *turn(1, said="[pruned]"), *turn(2, arguments={"b": 2, "a": 2}), *turn(3), *MORE]
    after[8] = message("user", text("go on 2"))
    session = Session("anthropic")
    session.send(anthropic(before, PROSE))
    plan = session.send(anthropic(after, PROSE))
    assert session.failures == []
    assert found(plan) == [
        ("H7", "messages[2].content[0]", False),
        ("H4", "messages[5].content[1].input", True),
        ("H1", "messages[8].content[1]", False),
    ]
    assert list(sent(plan)["messages"][5]["content"][1]["input"]) == ["a", "b"]
    lost = [d.lost for d in plan.diagnosis.drifts]
    assert sum(lost) == plan.diagnosis.tokens.lost > 0
    assert all(count > 0 for count in lost)
