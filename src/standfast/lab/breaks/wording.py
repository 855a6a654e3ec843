"""What clients write into system prompts: clocks, ids, the state of a workspace, memories, modes, users.

Each table is a row of makers; a maker gives the text of one request and of the next.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random

from standfast.lab.breaks.sessions import code

Maker = Callable[[Random], tuple[str, str]]

_MONTHS = {
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
}
_WEEKDAYS = ("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag")


def _month(language: str, when: datetime) -> str:
    return _MONTHS[language].split()[when.month - 1]


def _with(form: str) -> Callable[[datetime], str]:
    return lambda when: when.strftime(form)


_SECONDS: Sequence[tuple[str, Callable[[datetime], str]]] = (
    ("Current time: {}", _with("%Y-%m-%dT%H:%M:%SZ")),
    ("<env>\nCurrent time: {}\n</env>", _with("%Y-%m-%d %H:%M:%S")),
    ("The time is now {}.", _with("%H:%M:%S")),
    ("Current date and time: {}", _with("%a, %d %b %Y %H:%M:%S GMT")),
    ("- Current timestamp: {}", lambda when: str(int(when.timestamp()))),
    ("now_ms={}", lambda when: str(int(when.timestamp() * 1000))),
    ('{{"now": "{}"}}', _with("%Y-%m-%dT%H:%M:%S.%f+00:00")),
    ("Current time (UTC): {}", _with("%d/%m/%Y %H:%M:%S")),
    ("Session clock: {}", _with("%Y%m%dT%H%M%SZ")),
    ("Aktuelle Uhrzeit: {} Uhr", _with("%H:%M:%S")),
)
_MINUTES: Sequence[tuple[str, Callable[[datetime], str]]] = (
    ("It is {} on the user's clock.", _with("%I:%M %p")),
    ("Current time: {}", _with("%B %d, %Y at %I:%M %p")),
    ("Local time {} (Europe/Oslo)", _with("%d.%m.%Y %H:%M")),
    ("Heure actuelle : {}", _with("%Hh%M")),
    ("現在時刻: {}", _with("%Y年%m月%d日 %H時%M分")),
    ("当前时间：{}", _with("%Y年%m月%d日 %H:%M")),
    ("Ahora son las {}.", _with("%H:%M")),
)
_DAYS: Sequence[tuple[str, Callable[[datetime], str]]] = (
    ("Today's date is {}.", _with("%Y-%m-%d")),
    ("Today's date: {}", _with("%A, %B %d, %Y")),
    ("Today is {}.", _with("%m/%d/%Y")),
    ("Heute ist {}.", lambda w: f"{_WEEKDAYS[w.weekday()]}, der {w.day}. {_month('de', w)} {w.year}"),
    ("Date du jour : {}", lambda w: f"{w.day} {_month('fr', w)} {w.year}"),
    ("Hoy es {}.", lambda w: f"{w.day} de {_month('es', w)} de {w.year}"),
    ("Data di oggi: {}", lambda w: f"{w.day} {_month('it', w)} {w.year}"),
    ("Hoje é {}.", lambda w: f"{w.day} de {_month('pt', w)} de {w.year}"),
    ("Сегодня {} г.", lambda w: f"{w.day} {_month('ru', w)} {w.year}"),
    ("今日は{}です。", _with("%Y年%m月%d日")),
    ("오늘 날짜: {}", _with("%Y년 %m월 %d일")),
    ("Date: {}", _with("%d-%b-%Y")),
    ("You were started on {}.", _with("%b %d %Y")),
    ("Calendar week: {}", _with("%G-W%V, %A")),
)


def _clock(row: tuple[str, Callable[[datetime], str]], unit: timedelta) -> Maker:
    def made(rng: Random) -> tuple[str, str]:
        start = datetime(2026, 10, 2, 9, 14, 7, tzinfo=UTC) + timedelta(seconds=rng.randrange(40_000_000))
        later = start + unit * rng.randrange(1, 6)
        return row[0].format(row[1](start)), row[0].format(row[1](later))

    return made


def _counted(text: str, low: int, high: int, step: int = 7) -> Maker:
    def made(rng: Random) -> tuple[str, str]:
        number = rng.randrange(low, high)
        return text.format(number), text.format(number + rng.randrange(1, step))

    return made


def _twice(text: str, make: Callable[[Random], str]) -> Maker:
    def made(rng: Random) -> tuple[str, str]:
        return text.format(make(rng)), text.format(make(rng))

    return made


def _picks(text: str, *values: str) -> Maker:
    def made(rng: Random) -> tuple[str, str]:
        old, new = rng.sample(values, 2)
        return text.format(old), text.format(new)

    return made


def _lists(text: str, rows: Sequence[str], glue: str = "\n") -> Maker:
    """A list of some rows, and of some others."""

    def made(rng: Random) -> tuple[str, str]:
        old = rng.sample(rows, rng.randrange(2, len(rows) - 1))
        new = [row for row in old if row != old[-1]] if rng.random() < 0.3 and len(old) > 2 else list(old)
        new.append(rng.choice([row for row in rows if row not in old]))
        return text.format(glue.join(old)), text.format(glue.join(new))

    return made


CLOCKS: tuple[Maker, ...] = (
    *(_clock(row, timedelta(seconds=11)) for row in _SECONDS),
    *(_clock(row, timedelta(minutes=1)) for row in _MINUTES),
    *(_clock(row, timedelta(days=1)) for row in _DAYS),
    _counted("The user last wrote {} minutes ago.", 2, 50),
    _picks("Today is {}.", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
)  # fmt: skip


def _uuid(rng: Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def _hex(size: int) -> Callable[[Random], str]:
    return lambda rng: f"{rng.getrandbits(4 * size):0{size}x}"


def _ulid(rng: Random) -> str:
    return "01K" + "".join(rng.choices("0123456789ABCDEFGHJKMNPQRSTVWXYZ", k=23))


def billing(rng: Random) -> tuple[str, str]:
    """A client's billing block."""
    version = f"2.1.{rng.randrange(40, 220)}.{_hex(3)(rng)}"
    line = f"x-anthropic-billing-header: cc_version={version}; cc_entrypoint=cli; cch={{}};"
    return line.format(_hex(5)(rng)), line.format(_hex(5)(rng))


REQUEST_IDS: tuple[Maker, ...] = (
    _twice("Request id: {}", _uuid),
    _twice("request_id: req_{}", _hex(10)),
    _twice("Session ID: {}", _uuid),
    _twice("trace-id={}", _hex(32)),
    _twice("Conversation: conv_{}", lambda rng: code(rng, 24)),
    _twice("<session>{}</session>", _ulid),
    _twice("correlation_id: {}", _uuid),
    _twice("Run {} of this agent.", _uuid),
    _twice("[run-id {}]", _hex(16)),
    _twice("nonce={}", lambda rng: code(rng, 22)),
    _twice("Sandbox: sbx-{}", _hex(12)),
    _twice("X-Request-Id: {}", _hex(24)),
)

_FILES = ("src/app.py", "src/db/pool.py", "README.md", "tests/test_pool.py", "web/index.ts", "Makefile", "docs/api.md")
WORKSPACES: tuple[Maker, ...] = (
    _picks("git status: {}", "clean", "M src/app.py", "M src/app.py, ?? notes.txt", "2 files changed"),
    _picks("Current branch: {}", "main", "fix/pool-leak", "feature/export", "release-4.2"),
    _picks("Working directory: {}", "/home/ann/larch", "/home/ann/larch/web", "/srv/build/larch", "/Users/bo/larch"),
    _picks("<env>\ncwd: {}\n</env>", "/workspace/a", "/workspace/b", "/tmp/job-41/checkout"),
    _lists("Status:\n{}", tuple(f" M {name}" for name in _FILES)),
    _lists("Open files:\n{}", tuple(f"- {name}" for name in _FILES)),
    _lists("Recently viewed files: {}", _FILES, ", "),
    _lists("<workspace>\n{}\n</workspace>", tuple(f"{name}" for name in _FILES)),
    _lists("Recent commits:\n{}", ("4be1c2a Fix pool leak", "9aa01f3 Add export", "c01dfe2 Bump deps", "77e2b10 Tidy")),
    _counted("Tokens remaining: {}", 90_000, 190_000, 9_000),
    _counted("{} tokens left", 90_000, 190_000, 9_000),
    _picks("Hostname: {}", "build-7", "build-9", "ann-laptop", "runner-b2"),
    _counted("pid: {}", 1_000, 60_000, 900),
    _counted("Problems in the workspace: {} warnings", 2, 90),
    _picks("Scratch directory: {}", "/tmp/agent-91ac/work", "/tmp/agent-02fe/work", "/var/folders/q1/x7/T/work"),
    _picks("Cursor is at {}", "src/app.py:14:3", "src/app.py:88:1", "src/db/pool.py:7:22"),
    _picks("Git: on branch {}, nothing to commit", "main", "dev", "fix/pool-leak"),
)

_FACTS = (
    "The user prefers metric units.", "The user's dog is called Bo.", "The user works from Bergen on Fridays.",
    "The user asked for short answers.", "The user dislikes tables.", "The user's team is called Falk.",
)  # fmt: skip
_CHUNKS = (
    "Refunds are booked within five days of receipt.", "The warranty of frames is ten years.",
    "Parcels above thirty kilos go by freight.", "Gift cards cannot be exchanged for money.",
    "Spare parts are kept for eight years.", "Repairs begin with a photo of the damage.",
)  # fmt: skip
MEMORIES: tuple[Maker, ...] = (
    _lists("Memories:\n{}", tuple(f"- {fact}" for fact in _FACTS)),
    _lists("<memory>\n{}\n</memory>", _FACTS),
    _lists("## Memory\n{}", tuple(f"* {fact}" for fact in _FACTS)),
    _lists("What you remember about the user:\n{}", tuple(f"- {fact}" for fact in _FACTS)),
    _lists("Relevant documents:\n{}", _CHUNKS),
    _lists("<retrieved>\n{}\n</retrieved>", tuple(f"<doc>{chunk}</doc>" for chunk in _CHUNKS)),
    _lists("Knowledge base results:\n{}", tuple(f"[{i}] {chunk}" for i, chunk in enumerate(_CHUNKS))),
    _lists("<context source=\"retrieval\">\n{}\n</context>", _CHUNKS),
    _lists("Recalled facts: {}", _FACTS, " "),
    _lists("# Retrieved context\n{}", tuple(f"> {chunk}" for chunk in _CHUNKS)),
)  # fmt: skip

MODES: tuple[Maker, ...] = (
    _picks("Mode: {}", "plan", "act", "review"),
    _picks("Current mode: {}", "build", "plan", "ask"),
    _picks("channel={}", "telegram", "slack", "whatsapp", "web"),
    _picks("You are answering in the {} channel.", "email", "chat", "voice"),
    _picks("Permission mode: {}", "default", "acceptEdits", "plan", "bypassPermissions"),
    _picks("You are in {} MODE.", "PLAN", "EDIT", "DEBUG"),
    _picks("<mode>{}</mode>", "architect", "code", "ask"),
    _picks("Output style: {}", "concise", "explanatory", "learning"),
    _picks("Reply via: {}", "sms", "email", "voice"),
    _picks("Surface: {}", "ide", "terminal", "mobile"),
    _picks("Persona: {}", "mentor", "reviewer", "rubber duck"),
    _picks("Sandbox mode: {}", "read-only", "workspace-write", "danger-full-access"),
)

_PEOPLE = ("Ann Berg, sales, Oslo", "Bo Lind, support, Malmö", "Cy Moss, finance, Leeds", "Dee Park, legal, Busan")
_REPOS = (
    "This repository is a parser for CSV files. Build it with make; its tests live beside the code.",
    "This repository serves the shop's web pages. Run npm test before you finish; styles are in web/css.",
    "This repository holds the firmware of the sensor. Never touch boot/; flash with tools/flash.sh.",
    "This repository collects the company's dashboards. Queries are in sql/, one file each.",
)
USERS: tuple[Maker, ...] = (
    _picks("You are talking to {}.", *_PEOPLE),
    _picks("User profile: {}", *_PEOPLE),
    _picks("<user>\n{}\n</user>", *_PEOPLE),
    _picks("# Project instructions\n{}", *_REPOS),
    _picks("Contents of AGENTS.md:\n{}", *_REPOS),
    _picks("Account: {}", *(f"acct-{n}, plan team" for n in (1041, 2277, 3908, 4415))),
    _picks("Custom instructions of the user: {}", "Answer in Danish.", "Use British spelling.", "Call me captain."),
)

REMINDERS = (
    "<system-reminder>\nThe todo list has {n} open items.\n</system-reminder>",
    "<reminder>todo list: {n} open items</reminder>",
    "<environment_details>\n# Current time\n{n}:04 p.m.\n# Files\nREADME.md\n</environment_details>",
    "[system: {n} files changed on disk since the last turn]",
    "<context>The user has {n} tabs open.</context>",
    "(note to the assistant: {n} messages left in this window)",
    "<system-reminder>You have used {n} % of the context window.</system-reminder>",
    "<ide_selection>The user selected lines {n} to 99 of README.md.</ide_selection>",
)
ATTACHMENTS = (
    "<attachment name=\"brief.md\">\nThe launch moves to May. Prices stay.\n</attachment>",
    "Contents of notes.txt:\n- call Ines\n- renew the lease",
    "<skills>\npdf: fills forms\nslides: makes decks\n</skills>",
    "<file path=\"src/limits.py\">\nLIMIT = 12\n</file>",
    "Attached: sales.csv\nmonth,units\n1,40\n2,44",
    "<mcp_instructions server=\"tix\">Search before you open.</mcp_instructions>",
)  # fmt: skip
VOLATILE_DEFINITIONS: tuple[Maker, ...] = (
    _picks("Works in {}.", "/tmp/claude-0f6c/plugins", "/tmp/claude-9b22/plugins", "/tmp/claude-77ad/plugins"),
    _twice("Session endpoint: https://tools.example.com/s/{}", _hex(12)),
    _twice("Instance {}.", _uuid),
    _clock(("Knowledge up to {}.", _with("%Y-%m-%d")), timedelta(days=1)),
    _clock(("Registered at {}.", _with("%Y-%m-%dT%H:%M:%SZ")), timedelta(seconds=13)),
    _counted("Listens on port {}.", 20_000, 60_000, 900),
    _picks("Paths are relative to {}.", "/home/ann/larch", "/home/ann/larch/web", "/srv/larch"),
    _twice("Worker id: wrk-{}.", _hex(8)),
    _twice("Output goes to /var/folders/zz/{}/T/out.", _hex(10)),
    _counted("{} documents are indexed.", 100, 9_000, 40),
    _twice("Cache buster: {}", lambda rng: code(rng, 10)),
)
