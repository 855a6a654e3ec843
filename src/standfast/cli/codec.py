"""``standfast codec bench``: what the codecs of KV states save, and what they cost."""

from __future__ import annotations

import asyncio
import json
import platform
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from standfast.cli.figures import CONFIG, settings_in
from standfast.config import Settings

if TYPE_CHECKING:
    from standfast.lab.codec_bench import Row


@click.group()
def codec() -> None:
    """Codecs of KV states (docs/kv.md, docs/format/kv-codecs.md)."""


@codec.command()
@click.option("--text", "texts", multiple=True, type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Text to measure on (several); default: what Python says of ten of its modules.")  # fmt: skip
@click.option("--prompt", default=1024, show_default=True, help="Tokens whose state is coded, of each text.")
@click.option("--places", default=48, show_default=True, help="Tokens behind it at which predictions are compared.")
@click.option("--json", "as_json", is_flag=True)
@CONFIG
def bench(texts: tuple[Path, ...], prompt: int, places: int, as_json: bool, config: Path | None) -> None:
    """Measure ratio, speed and loss of each codec on the embedded engine.

    The engine computes the state of a text's first tokens; each codec writes and reads it; the engine goes on from the
    result through the text's next tokens. KL and top-1 compare its predictions with those from the state as it was,
    and stand beside the engine's own noise: the same state computed in batches of other sizes.
    """
    from standfast.lab.codec_bench import held_out, read_texts

    samples = read_texts(texts) if texts else held_out()
    with Progress(console=Console(stderr=True), transient=True, disable=as_json) as bars:
        task = bars.add_task("measuring", total=1.0)
        rows = _measure(settings_in(config), samples, prompt, places, lambda done: bars.update(task, completed=done))
    machine = f"{platform.processor() or platform.machine()}, Python {platform.python_version()}"
    if as_json:
        found = {row.name: row.figures() for row in rows}
        click.echo(json.dumps({"machine": machine, "texts": len(samples), "prompt": prompt, "codecs": found}, indent=2))
        return
    table = Table("codec", "ratio", "KL (nats)", "top-1", "encode", "decode")
    for row in rows:
        f = row.figures()
        ratio, *speeds = ("", "", "") if not row.raw else (
            f"{f['ratio']:.2f}", f"{f['encode_gb_s']:.2f} GB/s", f"{f['decode_gb_s']:.2f} GB/s")  # fmt: skip
        table.add_row(row.name, ratio, f"{f['kl']:.4f}", f"{f['top1']:.1%}", *speeds)
    console = Console()
    console.print(f"{machine}; {len(samples)} texts, {prompt} tokens each, {places} places", highlight=False)
    console.print(table)


def _measure(
    settings: Settings, texts: list[str], prompt: int, places: int, progress: Callable[[float], object]
) -> list[Row]:
    from standfast.engines import embedded, model
    from standfast.engines.llama_server import LlamaServer
    from standfast.lab.codec_bench import Bench
    from standfast.store.codecs import CODECS
    from standfast.store.codecs.quantised import warm

    model.ensure(settings)
    warm()

    async def run(url: str, folder: Path) -> list[Row]:
        server = LlamaServer(url, folder)
        await server.open()
        try:
            bench = Bench(server, prompt, places)
            return await bench.measure(texts, list(CODECS.values()), progress)
        finally:
            await server.close()
            for left in folder.glob("*.slot"):
                left.unlink()

    with tempfile.TemporaryDirectory(prefix="standfast-codecs-") as name:
        (Path(name) / "models").symlink_to(settings.models_dir.resolve())
        context = max(prompt + places + 64, 1024)
        alone = replace(settings, state_dir=Path(name), engine_slots=2, engine_context=context, kv=False)
        with embedded.running(alone) as engine:
            folder = embedded.slot_folder(alone)
            try:
                return asyncio.run(run(engine.base_url, folder))
            finally:
                if folder.parent != Path(name):
                    folder.rmdir()
