"""The pages say what is there: every setting, command, field and cause; and what they point to exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import click
import pytest

from standfast import cli, config
from standfast.config import Settings, Upstream
from standfast.explain import Step
from standfast.prompt.causes import CAUSES
from standfast.turn import Diagnosis

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "bench").glob("*.md"))
    if path.name not in ("LICENSE.md",)
)
_ROW = re.compile(r"^\| (?!---)(.*) \|$", re.M)


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Any) -> str:
    return str(Path(page).relative_to(ROOT))


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every row of every table."""
    for row in _ROW.findall(text):
        yield [cell.strip() for cell in row.split("|")]


def _shown(name: str, value: object) -> str:
    """A default as the page writes it."""
    if name == "state_dir":
        return "`~/.local/state/standfast`"  # a tester's environment may say another
    if isinstance(value, bool):
        return f"`{value}`".lower()
    if isinstance(value, float):
        return f"`{value:g}`"
    return "" if value in ("", Path()) else f"`{value}`"


class TestSettings:
    TABLE: ClassVar = {cells[0].strip("`"): cells for cells in rows(read(DOCS / "settings.md")) if len(cells) == 3}

    def test_all_and_no_others(self) -> None:
        assert list(self.TABLE) == ["setting", *(f.name for f in config.SETTINGS)]

    @pytest.mark.parametrize("field", config.SETTINGS, ids=lambda f: str(f.name))
    def test_default_and_text(self, field: Any) -> None:
        _, default, text = self.TABLE[field.name]
        assert text.startswith(field.metadata["help"])
        assert default == _shown(field.name, getattr(Settings(), field.name))

    def test_keys_of_an_upstream(self) -> None:
        told = {cells[0].strip("`") for cells in rows(read(DOCS / "settings.md")) if len(cells) == 2}
        assert {f.name for f in fields(Upstream)} <= told


class TestCommandLine:
    PAGE = read(DOCS / "cli.md")

    def test_every_command_has_its_section(self) -> None:
        assert set(re.findall(r"^## (\w+)$", self.PAGE, re.M)) == set(cli.app.commands)

    @pytest.mark.parametrize("command", sorted(cli.app.commands))
    def test_every_flag_that_is_no_setting(self, command: str) -> None:
        section = re.split(rf"^## {command}$", self.PAGE, flags=re.M)[1].partition("\n## ")[0]
        own = {f"--{f.name.replace('_', '-')}" for f in config.SETTINGS} | {"--config"}
        for flag in {option for p in cli.app.commands[command].params for option in p.opts if option.startswith("--")}:
            assert flag in own or f"`{flag}" in section or f" {flag}" in section, f"{command} {flag}"

    def test_every_field_of_explain(self) -> None:
        told = {name for cells in rows(self.PAGE) if len(cells) == 2 for name in re.findall(r"`([a-z_]+)`", cells[0])}
        assert set(Step(1, None, Diagnosis()).as_json()) <= told

    def test_every_response_header(self) -> None:
        for page in (self.PAGE, read(DOCS / "events.md")):
            for name in ("request-id", "hit", "cause", "repaired"):
                assert f"| `x-standfast-{name}` |" in page


def test_causes_are_the_table() -> None:
    told = [cells for cells in rows(read(DOCS / "causes.md")) if len(cells) == 4][1:]
    assert told == [[f"[{c.id}](causes/{c.id}.md)", c.title, str(c.repair), c.remedy] for c in CAUSES.values()]


def lines_of(page: Path) -> Iterator[str]:
    """The commands of a page's console blocks."""
    for block in re.findall(r"```console\n(.*?)```", read(page), re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                yield line[2:]


COMMANDS = sorted({(name_of(page), line) for page in PAGES for line in lines_of(page)})


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_commands_exist(page: str, line: str) -> None:
    """Each `standfast` command parses with these flags, and each `make` target is in the Makefile."""
    words = shlex.split(line, comments=True)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:.*## ", read(ROOT / "Makefile"), re.M)
    elif words[0] == "standfast":
        command = cli.app.commands[words[1]]
        command.make_context(words[1], words[2:], resilient_parsing=False)
    else:
        assert words[0] in ("export", "curl", "pip", "python", "git", ".ci/run", ".venv/bin/python")


def test_the_readme_names_the_two_commands_first() -> None:
    assert [line.split("  ")[0] for line in lines_of(ROOT / "README.md")][:2] == ["make serve", "make test"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", read(page), flags=re.S)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not re.match(r"https?://", target):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_anchors_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", read(page), flags=re.S)
    for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)]+)\)", text):
        there = read((page.parent / target) if target else page)
        titles = [
            re.sub(r"[^\w -]", "", t.lower()).strip().replace(" ", "-") for t in re.findall(r"^#+ (.*)$", there, re.M)
        ]
        assert anchor in titles, f"{target}#{anchor}"


def test_the_architecture_names_every_module() -> None:
    page = read(ROOT / "ARCHITECTURE.md")
    package = ROOT / "src" / "standfast"
    for path in package.iterdir():
        if path.name in ("__init__.py", "__pycache__", "py.typed"):
            continue
        assert f"`{path.name}{'/' if path.is_dir() else ''}`" in page


def test_the_changelog_tells_what_is_new() -> None:
    from standfast import __version__

    assert re.search(rf"^## \[?(Unreleased|{re.escape(__version__)})", read(ROOT / "CHANGELOG.md"), re.M)


def test_help_names_every_setting() -> None:
    """A flag for each setting but the secrets, which every process could read."""
    serve = cli.app.commands["serve"]
    flags = {option for p in serve.params for option in p.opts}
    for f in config.SETTINGS:
        assert (f"--{f.name.replace('_', '-')}" in flags) is not f.metadata["secret"]
    help_page = serve.get_help(click.Context(serve, info_name="standfast serve"))
    for f in config.SETTINGS:
        if not f.metadata["secret"]:
            assert f.metadata["help"].split()[0] in help_page
