"""Where a setting's value comes from, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from standfast import config
from standfast.config import Settings, Upstream, upstream_from_url
from standfast.errors import ConfigError
from standfast.policy import Leave, Policy


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "standfast.toml"


def load(file: Path | None = None, environ: dict[str, str] | None = None, **flags: Any) -> Settings:
    return config.load(flags, file, environ or {"XDG_CONFIG_HOME": "/nowhere"})


class TestPrecedence:
    def test_flag_environment_file_default(self, file: Path) -> None:
        file.write_text("port = 1\nworkers = 2\nmax_body_mb = 3\n")
        found = load(file, {"STANDFAST_PORT": "11", "STANDFAST_WORKERS": "12"}, port="21")
        assert (found.port, found.workers, found.max_body_mb, found.engine_slots) == (21, 12, 3, 2)

    def test_a_flag_that_was_not_given_decides_nothing(self) -> None:
        assert load(environ={"STANDFAST_PORT": "11"}, port=None).port == 11

    def test_a_false_flag_decides(self, file: Path) -> None:
        file.write_text("engine_requantise = true\n")
        assert load(file, engine_requantise=False).engine_requantise is False

    @pytest.mark.parametrize("field", config.SETTINGS, ids=lambda f: str(f.name))
    def test_each_has_a_variable(self, field: Any) -> None:
        texts = {"bool": "false", "int": "7", "float": "7.5", "Path": "/some/where", "Leave": "observe"}
        choices = {"ledger": "memory", "log_level": "debug", "kv_archive": "none", "kv_codec": "raw"}
        text = choices.get(field.name, texts.get(field.type, "words"))
        assert str(getattr(load(environ={f"STANDFAST_{field.name.upper()}": text}), field.name)).lower() == text


class TestFile:
    def test_the_one_that_is_given(self, file: Path) -> None:
        assert config.config_path(file, {"STANDFAST_CONFIG": "/other"}) == file

    def test_the_environments(self) -> None:
        assert config.config_path(None, {"STANDFAST_CONFIG": "/other"}) == Path("/other")

    def test_here_then_at_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        environ = {"XDG_CONFIG_HOME": str(tmp_path / "home")}
        assert config.config_path(None, environ) is None
        own = tmp_path / "home" / "standfast" / "config.toml"
        own.parent.mkdir(parents=True)
        own.touch()
        assert config.config_path(None, environ) == own
        Path("standfast.toml").touch()
        assert config.config_path(None, environ) == Path("standfast.toml")

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("prot = 1", "unknown setting 'prot'"),
            ("port = ", "not valid TOML"),
            ('port = "many"', "port is a whole number ≥ 0 and under 65536, not 'many'"),
            ("upstream = 5", "an upstream is a table"),
            ('[upstream]\nurl = "http://x"', "an upstream is a table"),
            ("[[upstream]]", "upstream 1: needs a url"),
            ('[[upstream]]\nurl = "http://x"\n[[upstream]]\nurl = 5', "upstream 2: needs a url"),
            ('[[upstream]]\nurl = "http://x"\nmodel = "x"', "upstream 1: unknown key 'model'"),
            ('[[upstream]]\nurl = "http://x"\nmodels = "x"', "upstream 1: models is a list of patterns"),
            ('[[upstream]]\nurl = "http://x"\nmodels = 5', "upstream 1: models is a list of patterns"),
            ('[[upstream]]\nurl = "http://x"\nmodels = [5]', "upstream 1: models is a list of patterns"),
            ('[[upstream]]\nurl = "http://x"\npath = "x"', "path 'x' must begin with /"),
            ('[[upstream]]\nurl = "http://x"\npolicy = "x"', "upstream 1: policy is off, observe, lossless, isolate"),
            ('[[upstream]]\nurl = "http://x"\nbilling_block = "x"', "upstream 1: billing_block is pin or leave"),
        ],
    )
    def test_what_is_wrong_is_named(self, file: Path, text: str, reason: str) -> None:
        file.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load(file)
        assert str(caught.value).startswith(f"{file}: ")
        assert reason in str(caught.value)

    def test_not_there(self, file: Path) -> None:
        with pytest.raises(ConfigError, match="cannot be read: No such file"):
            load(file)

    def test_no_text(self, file: Path) -> None:
        file.write_bytes(b"\xff\xfe")
        with pytest.raises(ConfigError, match="not valid TOML"):
            load(file)


class TestConversion:
    @pytest.mark.parametrize("text", ["1", "true", "Yes", "ON"])
    def test_true(self, text: str) -> None:
        assert load(environ={"STANDFAST_ENGINE_REQUANTISE": text}).engine_requantise is True

    @pytest.mark.parametrize("text", ["0", "false", "No", "OFF"])
    def test_false(self, text: str) -> None:
        assert load(environ={"STANDFAST_ENGINE_REQUANTISE": text}).engine_requantise is False

    def test_paths_may_begin_at_home(self) -> None:
        assert load(state_dir="~/x").state_dir == Path.home() / "x"

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("port", "-1"),
            ("port", "65536"),
            ("port", True),
            ("port", 1.5),
            ("workers", "1.5"),
            ("workers", ""),
            ("workers", float("inf")),
            ("read_timeout", "-0.1"),
            ("read_timeout", "nan"),
            ("read_timeout", "inf"),
            ("read_timeout", []),
            ("engine_requantise", "perhaps"),
            ("policy", "strict"),
            ("ledger", "redis"),
            ("log_level", "loud"),
            ("state_dir", "~no-such-user/x"),
            ("state_dir", 5),
            ("host", 5),
        ],
    )
    def test_refused(self, name: str, value: Any) -> None:
        with pytest.raises(ConfigError) as caught:
            load(**{name: value})
        assert str(caught.value).startswith(f"--{name.replace('_', '-')}: {name} is ")
        assert str(caught.value).endswith(f", not {value!r}")

    def test_the_source_is_named(self) -> None:
        with pytest.raises(
            ConfigError, match=r"^STANDFAST_POLICY: policy is off, observe, lossless, isolate;.*, not 'x'$"
        ):
            load(environ={"STANDFAST_POLICY": "x"})


class TestUpstreams:
    def test_rows(self, file: Path) -> None:
        file.write_text(
            '[[upstream]]\nname = "a"\nurl = "https://api.anthropic.com"\nmodels = ["claude-*"]\npolicy = "observe"\n'
            '[[upstream]]\nurl = "http://127.0.0.1:8080/v1/"\npath = "/local/"\nbilling_block = "leave"\n'
        )
        assert load(file).upstreams == (
            Upstream("a", "https://api.anthropic.com", ("claude-*",), "", Leave(Policy.OBSERVE), "leave"),
            Upstream("127.0.0.1", "http://127.0.0.1:8080", (), "/local", None, "leave"),
        )

    def test_flags_stand_for_the_files(self, file: Path) -> None:
        file.write_text('[[upstream]]\nurl = "http://x"\n')
        given = (upstream_from_url("http://y"),)
        assert load(file, upstreams=given).upstreams == given
        assert [u.url for u in load(file, upstreams=()).upstreams] == ["http://x"]

    @pytest.mark.parametrize(
        ("url", "base"),
        [
            ("https://api.openai.com", "https://api.openai.com"),
            ("https://api.openai.com/", "https://api.openai.com"),
            ("https://api.openai.com/v1", "https://api.openai.com"),
            ("https://api.openai.com/v1/", "https://api.openai.com"),
            ("https://openrouter.ai/api/v1", "https://openrouter.ai/api"),
            ("https://host/v1beta", "https://host/v1beta"),
            ("http://[::1]:8080/v1", "http://[::1]:8080"),
        ],
    )
    def test_the_version_may_be_left_out(self, url: str, base: str) -> None:
        assert upstream_from_url(url).url == base

    @pytest.mark.parametrize(
        "url", ["", "api.openai.com", "ftp://x", "http://", "http://[", "http://x:port", "//x", "http://x?a=b"]
    )
    def test_no_url(self, url: str) -> None:
        with pytest.raises(ConfigError, match="give a URL with http:// or https:// and a host"):
            upstream_from_url(url)

    def test_a_password_is_not_repeated(self) -> None:
        with pytest.raises(ConfigError, match="http://…@x/v1") as caught:
            upstream_from_url("http://user:sesame@x/v1")
        assert "sesame" not in str(caught.value)

    def test_billing_block(self) -> None:
        assert upstream_from_url("https://api.anthropic.com").billing_block == "leave"
        assert upstream_from_url("https://example.com").billing_block == "pin"

    def test_names(self) -> None:
        assert upstream_from_url("https://api.openai.com").name == "api.openai.com"
        assert upstream_from_url("https://api.openai.com", "mine").name == "mine"

    def test_models(self) -> None:
        some = Upstream("a", "http://x", ("claude-*", "gpt-5"))
        assert [some.takes_model(m) for m in ("claude-x", "gpt-5", "gpt-5-mini", "Claude-x")] == [
            True,
            True,
            False,
            False,
        ]
        assert Upstream("a", "http://x").takes_model("any")


def test_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/var/own")
    found = load()
    assert found.database == Path("/var/own/standfast/ledger.sqlite")
    assert found.models_dir == Path("/var/own/standfast/models")
