"""The pages about metrics and events name all of them, and nothing that does not exist."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from standfast import events
from standfast.observe.metrics import Metrics

DOCS = Path(__file__).resolve().parents[3] / "docs"
EVENTS = sorted(
    name for name, kind in vars(events).items() if isinstance(kind, type) and issubclass(kind, events.Event)
)


def test_every_metric_is_on_the_page_and_no_other() -> None:
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(standfast_\w+)` \|", page, re.M)) == Metrics().names()


def test_labels_are_as_the_page_says() -> None:
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    told = {
        name: re.findall(r"`(\w+)`", labels)
        for name, labels in re.findall(r"^\| `(standfast_\w+)` \| \w+ \|([^|]*)\|", page, re.M)
    }
    assert {name: list(labels) for name, labels in Metrics().labels().items()} == told


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_and_its_fields_are_on_the_page(name: str) -> None:
    page = (DOCS / "events.md").read_text(encoding="utf-8")
    assert f"`{name}`" in page
    section = page.partition(f"## `{name}`")[2].partition("\n## ")[0] or page
    for field in fields(getattr(events, name)):
        assert f"`{field.name}`" in (page if field.name == "request_id" else section)
