"""GGUF files: is this one whole, and the one-time turn into Q8_0.

A published file has a *seal* beside it (``<name>.seal``): the SHA-256 digest it was published with, and the size and
modification time it had then. While size and time agree, the file is taken as whole without reading it, so that the
check costs microseconds at each start; once they differ, the digest decides.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from standfast.errors import EngineError, ModelBroken, ModelMissing, NoSpace

Progress = Callable[[str, float | None], None]
"""Told what is being done and the fraction that is done; None where that is not known."""

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_CHUNK = 1 << 20


def silent(step: str, fraction: float | None) -> None:
    """The progress when nobody looks."""


def check_gguf(path: Path) -> None:
    """Raise ModelMissing if there is no file, ModelBroken if it does not begin like a GGUF file."""
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except (FileNotFoundError, NotADirectoryError):
        raise ModelMissing(f"{path}: no such file; run `standfast setup`, or set engine_model to a GGUF file") from None
    except OSError as error:
        raise ModelBroken(f"{path}: cannot be read: {error.strerror}") from error
    if head[:4] != _MAGIC:
        raise _broken(path, "not a GGUF file")
    if int.from_bytes(head[4:], "little") not in _VERSIONS:
        raise _broken(path, "unknown GGUF version, or cut off")


def check_sealed(path: Path, digest: str | None = None) -> None:
    """Raise ModelMissing or ModelBroken unless the file is the one that was published here.

    digest is the pinned one, where there is one; it outranks the seal's.
    """
    check_gguf(path)
    sealed = _read_json(_seal_path(path))
    wanted = digest or sealed.get("sha256")
    if not wanted:
        raise _broken(path, "nothing tells its digest")
    stat = path.stat()
    if sealed == {"sha256": wanted, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}:
        return
    if file_digest(path) != wanted:
        raise _broken(path, f"its SHA-256 digest is not {wanted[:12]}…")
    seal(path, wanted)


def seal(path: Path, digest: str) -> None:
    """Note beside the file that it is whole."""
    stat = path.stat()
    text = json.dumps({"sha256": digest, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns})
    with publishing(_seal_path(path)) as part:
        part.write_text(text, encoding="utf-8")


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def known_digest(path: Path, notes: Path) -> str:
    """SHA-256 of a file's contents; read again only if its size or time has changed since it was noted in ``notes``."""
    stat = path.stat()
    for seal_path in (_seal_path(path), notes):
        sealed = _read_json(seal_path)
        if (sealed.get("size"), sealed.get("mtime_ns")) == (stat.st_size, stat.st_mtime_ns):
            return str(sealed["sha256"])
    digest = file_digest(path)
    note = {"sha256": digest, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    with publishing(notes) as part:
        part.write_text(json.dumps(note), encoding="utf-8")
    return digest


@contextlib.contextmanager
def publishing(target: Path) -> Iterator[Path]:
    """Write a file so that it is there whole or not at all: yields the path to write to, then syncs and renames."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with room_errors(target.parent):
            yield part
            with part.open("rb") as file:
                os.fsync(file.fileno())
            part.replace(target)
            _sync_folder(target.parent)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def room_errors(folder: Path) -> Iterator[None]:
    """Turn a full disk or a folder that cannot be written into our own errors."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace(f"{folder}: the disk is full; free some room, or set state_dir to another disk") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise EngineError(f"{folder}: cannot be written: {error.strerror}; set state_dir elsewhere") from error
        raise


def requantise(source: Path, target: Path, progress: Progress = silent) -> None:
    """Publish a copy of a GGUF file whose quantised matrices are Q8_0, and seal it.

    llama.cpp has its fastest CPU kernels for Q8_0: prompts are read up to twice as fast as with Q4_1. Vectors and
    matrices that are not quantised stay as they are.
    """
    try:
        import gguf
    except ImportError as error:
        raise EngineError("the gguf package is missing: pip install 'standfast[embedded]'") from error
    progress("reading the weights", None)
    try:
        reader = gguf.GGUFReader(source)
    except (ValueError, IndexError, KeyError) as error:
        raise _broken(source, f"cannot be parsed ({error})") from error
    with publishing(target) as part:
        _write_q8(gguf, reader, part, progress)
        digest = file_digest(part)
    seal(target, digest)


def _write_q8(gguf: Any, reader: Any, part: Path, progress: Progress) -> None:
    writer = gguf.GGUFWriter(part, reader.fields["general.architecture"].contents())
    try:
        _copy_fields(gguf, reader, writer)
        for done, tensor in enumerate(reader.tensors):
            progress("turning the weights into Q8_0", done / len(reader.tensors))
            data, kind = tensor.data, tensor.tensor_type
            if _improves(gguf, tensor):
                kind = gguf.GGMLQuantizationType.Q8_0
                data = gguf.quants.quantize(gguf.quants.dequantize(data, tensor.tensor_type), kind)
            writer.add_tensor(tensor.name, data, raw_dtype=kind)
        progress("writing the weights", None)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _improves(gguf: Any, tensor: Any) -> bool:
    kinds = gguf.GGMLQuantizationType
    plain = (kinds.F32, kinds.F16, kinds.BF16, kinds.F64, kinds.Q8_0)
    return len(tensor.shape) == 2 and tensor.tensor_type not in plain


def _copy_fields(gguf: Any, reader: Any, writer: Any) -> None:
    array = gguf.GGUFValueType.ARRAY
    for name, field in reader.fields.items():
        # The writer makes the header's fields and the architecture itself.
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value = int(gguf.LlamaFileType.MOSTLY_Q8_0) if name == "general.file_type" else field.contents()
        kind = field.types[0]
        writer.add_key_value(name, value, kind, sub_type=field.types[-1] if kind == array else None)


def _seal_path(path: Path) -> Path:
    return path.with_name(path.name + ".seal")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _broken(path: Path, why: str) -> ModelBroken:
    return ModelBroken(f"{path}: {why}; delete the file and run `standfast setup`")
