from __future__ import annotations

import os
import stat
from pathlib import Path

import gguf
import numpy as np
import pytest

from standfast.engines import weights
from standfast.errors import EngineError, ModelBroken, ModelMissing, NoSpace

HEAD = b"GGUF\x03\x00\x00\x00"
KINDS = gguf.GGMLQuantizationType


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A little GGUF file with what the real one has: Q4_1, Q8_0 and F32 matrices, a vector, arrays, text."""
    path = tmp_path / "small.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("Größe")
    writer.add_file_type(int(gguf.LlamaFileType.MOSTLY_Q4_1))
    writer.add_token_list(["a", "b", "ü"])
    writer.add_token_types([1, 1, 3])
    rng = np.random.default_rng(7)
    for kind in (KINDS.Q4_1, KINDS.Q8_0, KINDS.F32):
        data = rng.standard_normal((8, 64), dtype=np.float32)
        writer.add_tensor(kind.name, gguf.quants.quantize(data, kind), raw_dtype=kind)
    writer.add_tensor("norm", np.ones(64, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_requantise(small: Path, tmp_path: Path) -> None:
    steps: list[str] = []
    target = tmp_path / "q8.gguf"
    weights.requantise(small, target, lambda step, _: steps.append(step))
    before, after = gguf.GGUFReader(small), gguf.GGUFReader(target)
    assert [t.name for t in after.tensors] == [t.name for t in before.tensors]
    assert [t.tensor_type for t in after.tensors] == [KINDS.Q8_0, KINDS.Q8_0, KINDS.F32, KINDS.F32]
    for old, new in zip(before.tensors, after.tensors, strict=True):
        wanted = gguf.quants.dequantize(old.data, old.tensor_type)
        got = gguf.quants.dequantize(new.data, new.tensor_type)
        np.testing.assert_allclose(got, wanted, atol=float(np.abs(wanted).max()) / 127)
    assert after.fields["general.file_type"].contents() == int(gguf.LlamaFileType.MOSTLY_Q8_0)
    for name in ("general.name", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"):
        assert after.fields[name].contents() == before.fields[name].contents()
    weights.check_sealed(target)
    assert len(set(steps)) == 3
    assert not list(tmp_path.glob(".*"))


def test_requantise_of_garbage(tmp_path: Path) -> None:
    source = tmp_path / "x.gguf"
    source.write_bytes(HEAD + b"\xff" * 100)
    with pytest.raises(ModelBroken, match=r"cannot be parsed"):
        weights.requantise(source, tmp_path / "y.gguf")
    assert not (tmp_path / "y.gguf").exists()


@pytest.mark.parametrize("content", [b"", b"GG", b"PK\x03\x04....", b"GGUF", b"GGUF\x00\x00\x00\x09"])
def test_not_a_gguf_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelBroken, match=r"x\.gguf.*standfast setup") as caught:
        weights.check_gguf(path)
    assert "\n" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="no such file"):
        weights.check_gguf(tmp_path / "x.gguf")
    with pytest.raises(ModelBroken, match="cannot be read"):
        weights.check_gguf(tmp_path)


def test_a_sealed_file_is_read_again_only_when_it_looks_changed(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(HEAD + b"1")
    weights.seal(path, weights.file_digest(path))
    weights.check_sealed(path)
    os.utime(path, ns=(1, 1))  # touched, same content: the digest decides
    weights.check_sealed(path)
    path.write_bytes(HEAD + b"2")
    with pytest.raises(ModelBroken, match="digest"):
        weights.check_sealed(path)


def test_a_file_cut_off_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(HEAD + b"12345678")
    weights.seal(path, weights.file_digest(path))
    os.truncate(path, 10)
    with pytest.raises(ModelBroken, match="digest"):
        weights.check_sealed(path)


@pytest.mark.parametrize("seal", ["", "[]", "{", '{"sha256":""}'])
def test_a_broken_seal_is_no_seal(tmp_path: Path, seal: str) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(HEAD)
    (tmp_path / "x.gguf.seal").write_text(seal)
    with pytest.raises(ModelBroken, match="nothing tells"):
        weights.check_sealed(path)
    weights.check_sealed(path, weights.file_digest(path))  # a pinned digest needs none


def test_publishing_is_all_or_nothing(tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_text("old")
    with pytest.raises(UnicodeEncodeError), weights.publishing(target) as part:
        part.write_bytes(b"ne" + "\ud800".encode())
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_has_its_own_error(tmp_path: Path) -> None:
    with pytest.raises(NoSpace, match="free some room"), weights.publishing(tmp_path / "x"):
        Path("/dev/full").write_bytes(b"1" * 10_000)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(EngineError, match="cannot be written"), weights.room_errors(tmp_path / "f"):
        (tmp_path / "f" / "g").mkdir(parents=True)


def test_other_errors_pass() -> None:
    with pytest.raises(FileNotFoundError), weights.room_errors(Path("/")):
        Path("/no/such/file").read_text()


def test_parts_are_private_to_their_process(tmp_path: Path) -> None:
    with weights.publishing(tmp_path / "x") as part:
        assert str(os.getpid()) in part.name
        part.write_text("1")
    assert stat.S_ISREG((tmp_path / "x").stat().st_mode)
