from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import signal
import stat
import struct
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from sketches import any_clusters, any_sketch, head
from vplug_logits import artefact, digest
from vplug_logits.artefact import Artefact
from vplug_logits.errors import (
    ArtefactDamagedError,
    ArtefactError,
    ArtefactForeignError,
    ArtefactMissingError,
    BadInputError,
)
from vplug_logits.sketch import Sketch

V, D = 200, 24
SHAPES = [(200, 24), (64, 16), (1, 1), (65, 7), (16, 31)]


def written(path: Path, *, shape: tuple[int, int] = (V, D), bits: int = 2, full: bool = True, **more: Any) -> str:
    vocabulary, width = shape
    artefact.write(
        str(path),
        more.get("sketch", any_sketch(vocabulary, width, bits)),
        digests=more.get("digests", digest.of_rows(head(vocabulary, width))),
        seed=3,
        dtype="bfloat16",
        source="a-model",
        positions=1536,
        clusters=any_clusters(vocabulary, width) if full else None,
        states=torch.arange(5.0 * width).view(5, width) if full else None,
    )
    return str(path)


def same(left: object, right: object) -> bool:
    """Whether two dataclasses hold the same tensors and values."""
    assert dataclasses.is_dataclass(left) and dataclasses.is_dataclass(right)
    for field in dataclasses.fields(left):
        one, other = getattr(left, field.name), getattr(right, field.name)
        if isinstance(one, torch.Tensor):
            if not torch.equal(one, other) or one.dtype != other.dtype:
                return False
        elif one != other:
            return False
    return True


# What was written comes back


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [False, True])
def test_what_was_written_comes_back(tmp_path: Path, bits: int, shape: tuple[int, int], full: bool) -> None:
    path = written(tmp_path / "a", shape=shape, bits=bits, full=full)
    got = artefact.read(path)
    assert same(got.sketch, any_sketch(*shape, bits))
    assert torch.equal(got.digests, digest.of_rows(head(*shape)))
    if full:
        assert same(got.clusters, any_clusters(*shape))
        assert got.states is not None and got.states.tolist() == torch.arange(5.0 * shape[1]).view(5, -1).tolist()
    else:
        assert got.clusters is None and got.states is None
    said = got.metadata
    assert (said.bits, said.vocabulary, said.width, said.unit) == (bits, *shape, 0.25)
    assert (said.seed, said.dtype, said.source, said.positions) == (3, "bfloat16", "a-model", 1536)
    assert said.head == digest.of_head(got.digests) and said.writer.startswith("vplug_logits")


@pytest.mark.parametrize("bits", [1, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_reader_of_safetensors_accepts_the_file(tmp_path: Path, bits: int, shape: tuple[int, int]) -> None:
    path = written(tmp_path / "a", shape=shape, bits=bits)
    ours = artefact.read(path)
    with safe_open(path, framework="pt") as file:
        assert torch.equal(file.get_tensor("codes"), ours.sketch.codes)
        assert torch.equal(file.get_tensor("transform"), ours.sketch.transform)
        assert torch.equal(file.get_tensor("digests"), ours.digests)
        assert file.metadata()["format"] == "vplug_logits"
        assert ("norm" in file.keys()) == (bits == 8)  # noqa: SIM118  # not a mapping


@pytest.mark.parametrize("shape", SHAPES)
def test_codes_are_mapped_at_a_multiple_of_64_bytes_and_every_tensor_is_aligned(
    tmp_path: Path, shape: tuple[int, int]
) -> None:
    got = artefact.read(written(tmp_path / "a", shape=shape, bits=8))
    assert got.sketch.codes.data_ptr() % 64 == 0
    maps = Path("/proc/self/maps").read_text()
    ranges = [line.split()[0].split("-") for line in maps.splitlines() if line.endswith(str(tmp_path / "a"))]
    assert any(int(low, 16) <= got.sketch.codes.data_ptr() < int(high, 16) for low, high in ranges)
    assert got.sketch.norm is not None and got.clusters is not None and got.states is not None
    for tensor in (
        *(got.sketch.scale, got.sketch.residual, got.sketch.norm, got.sketch.transform, got.sketch.mean),
        *(got.clusters.members, got.clusters.centroids, got.clusters.scale, got.digests, got.states),
    ):
        assert tensor.data_ptr() % tensor.element_size() == 0


def test_the_same_sketch_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other = written(tmp_path / "a"), written(tmp_path / "b")
    assert Path(one).read_bytes() == Path(other).read_bytes()


def test_writing_into_a_tensor_that_was_read_does_not_reach_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "a")
    before = Path(path).read_bytes()
    artefact.read(path).sketch.codes.zero_()
    assert Path(path).read_bytes() == before


def test_a_file_that_is_replaced_stays_as_it_was_for_its_readers(tmp_path: Path) -> None:
    path = written(tmp_path / "a")
    old = artefact.read(path)
    written(tmp_path / "a", sketch=any_sketch(V, D, 2, seed=9))
    assert same(old.sketch, any_sketch(V, D, 2))
    assert same(artefact.read(path).sketch, any_sketch(V, D, 2, seed=9))


# Writing


def test_a_private_file_is_its_users_alone(tmp_path: Path) -> None:
    path = written(tmp_path / "a")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_tensors_that_do_not_belong_together_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="digests"):
        written(tmp_path / "a", digests=torch.zeros(3, dtype=torch.int64))
    with pytest.raises(BadInputError, match="scale"):
        written(tmp_path / "a", sketch=dataclasses.replace(any_sketch(V, D, 2), scale=torch.zeros(256)))
    with pytest.raises(BadInputError, match="norm is missing"):
        written(tmp_path / "a", sketch=dataclasses.replace(any_sketch(V, D, 8), norm=None))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="cannot be written: No such file") as raised:
        written(tmp_path / "none" / "a")
    assert "VPLUG_LOGITS_CACHE" in str(raised.value)


def test_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    child = multiprocessing.get_context("fork").Process(target=_write_with_a_limit, args=(tmp_path,))
    child.start()
    child.join(20)
    assert child.exitcode == 7
    assert not list(tmp_path.iterdir())


def _write_with_a_limit(folder: Path) -> None:
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    try:
        written(folder / "a")
    except ArtefactError as error:
        os._exit(7 if "File too large" in str(error) else 1)
    os._exit(0)


def test_a_killed_writer_leaves_nothing_under_the_name(tmp_path: Path) -> None:
    child = multiprocessing.get_context("fork").Process(target=_stop_before_the_rename, args=(tmp_path,))
    child.start()
    deadline = time.monotonic() + 20
    while not (tmp_path / "written").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join(20)
    names = [name for name in os.listdir(tmp_path) if name != "written"]
    assert len(names) == 1 and names[0].startswith(".a.part-")


def _stop_before_the_rename(folder: Path) -> None:
    def wait(*_: object) -> None:
        (folder / "written").touch()
        time.sleep(60)

    os.replace = wait  # type: ignore[assignment]
    written(folder / "a")


# Damaged and foreign files


def parts(path: str) -> tuple[dict[str, Any], bytes]:
    raw = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def put(path: str, header: Any, data: bytes) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def refused(path: str) -> str:
    with pytest.raises(ArtefactDamagedError) as raised:
        artefact.read(path)
    assert raised.value.path == path and "vplug-logits build" in str(raised.value)
    return raised.value.reason


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ArtefactMissingError, match="is not there"):
        artefact.read(str(tmp_path / "none"))


def test_a_folder_is_no_artefact(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="cannot be read"):
        artefact.read(str(tmp_path))


def test_a_file_cut_at_any_interesting_byte_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a", bits=8)
    raw = Path(path).read_bytes()
    header, _ = parts(path)
    begin = 8 + struct.unpack("<Q", raw[:8])[0]
    ends = {begin + offset for name, said in header.items() if name[0] != "_" for offset in said["data_offsets"]}
    cuts = {0, 1, 7, 8, 9, begin - 1, begin, begin + 1, len(raw) - 1} | ends | {end - 1 for end in ends}
    for cut in sorted(cuts - {len(raw)}):
        Path(path).write_bytes(raw[:cut])
        refused(path)
    Path(path).write_bytes(raw + b"\0")
    assert "bytes" in refused(path)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_changed_byte_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = written(tmp_path_factory.mktemp("changed") / "a", shape=(20, 5))
    raw = bytearray(Path(path).read_bytes())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    Path(path).write_bytes(raw)
    try:
        got = artefact.read(path)
    except ArtefactDamagedError:
        return
    assert raw[at] in b" \t\n\r"  # one blank for another in the header's padding
    assert same(got.sketch, any_sketch(20, 5, 2))


@given(raw=st.binary(max_size=300))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "a"
    path.write_bytes(struct.pack("<Q", max(0, len(raw) - 8)) + raw)
    refused(str(path))


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 50_000,
        b"{",
        b"[]",
        b"null",
        b'{"a":1,"a":1}',
        b'{"a":NaN}',
        b'{"a":' + b"9" * 5000 + b"}",
        b"\xff\xfe{}",
        b'{"__metadata__":{"format":"other"}}',
        b'{"__metadata__":{"format":"vplug_logits","version":"99"}}',
        b'{"__metadata__":{"format":"vplug_logits","version":"1"}}',
        b'{"__metadata__":[]}',
    ],
)
def test_a_hostile_header_is_refused(tmp_path: Path, header: bytes) -> None:
    path = str(tmp_path / "a")
    put(path, header, b"\0" * 64)
    refused(path)


def test_data_that_cannot_be_used_as_mapped_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a")
    header, data = parts(path)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)
    assert "multiple of 64" in refused(path)


@pytest.mark.parametrize("length", [2**16 + 1, 2**31, 2**63, 2**64 - 1])
def test_a_huge_header_is_refused_before_it_is_read(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(struct.pack("<Q", length) + b"{}")
    assert str(length) in refused(str(path))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bits", "3"),
        ("bits", "4"),
        ("bits", "two"),
        ("vocabulary", "0"),
        ("vocabulary", "-200"),
        ("vocabulary", "201"),
        ("vocabulary", str(2**62)),
        ("vocabulary", "9" * 5000),
        ("width", "-24"),
        ("width", str(2**31)),
        ("unit", "nan"),
        ("unit", "inf"),
        ("unit", "0"),
        ("unit", "0.3"),
        ("unit", "-0.25"),
        ("unit", "1e300"),
        ("seed", "1e3"),
        ("seed", str(2**70)),
        ("dtype", "int4"),
        ("positions", "-1"),
        ("head", "0" * 32),
        ("content", "0" * 32),
        ("bits", None),
        ("content", None),
        ("unit", "0.5"),
        ("source", "another-model"),
    ],
)
def test_metadata_that_mean_nothing_are_refused(tmp_path: Path, name: str, text: str | None) -> None:
    path = written(tmp_path / "a")
    header, data = parts(path)
    if text is None:
        del header["__metadata__"][name]
    else:
        header["__metadata__"][name] = text
    put(path, header, data)
    assert refused(path)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("codes", "data_offsets", [64, 64 + 64 * 24]),
        ("scale", "data_offsets", [0, 512]),  # overlaps codes
        ("scale", "data_offsets", [-512, 0]),
        ("scale", "data_offsets", [0, 2**63]),
        ("scale", "data_offsets", "0"),
        ("scale", "shape", [-256]),
        ("scale", "shape", [255]),
        ("scale", "shape", [[256]]),
        ("codes", "shape", [4, 2, 64]),
        ("states", "shape", [-5, 24]),
        ("states", "shape", [0, 24]),
        ("states", "shape", [2**40, 24]),
        ("states", "shape", None),
        ("scale", "dtype", "BF16"),
        ("transform", "dtype", "F16"),
        ("codes", "dtype", "I8"),
        ("codes", "extra", 1),
    ],
)
def test_tensors_that_lie_are_refused(tmp_path: Path, name: str, key: str, value: Any) -> None:
    path = written(tmp_path / "a")
    header, data = parts(path)
    header[name][key] = value
    put(path, header, data)
    assert name in refused(path)


@pytest.mark.parametrize("change", ["missing", "extra", "not an object", "states not an object"])
def test_other_tensors_than_an_artefacts_are_refused(tmp_path: Path, change: str) -> None:
    path = written(tmp_path / "a")
    header, data = parts(path)
    if change == "missing":
        del header["scale"]
    elif change == "extra":
        header["more"] = {"dtype": "U8", "shape": [0], "data_offsets": [len(data), len(data)]}
    else:
        header["states" if "states" in change else "mean"] = 5
    put(path, header, data)
    refused(path)


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = str(tmp_path / "a")
    save_file({"codes": torch.zeros(4)}, path)
    assert "no artefact" in refused(path)


def replaced(path: Path, **fields: Any) -> str:
    """An artefact whose sketch has wrong numbers, with sound digests of its content."""
    return written(path, sketch=dataclasses.replace(any_sketch(V, D, 8), **fields), full=False)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize("name", ["scale", "residual", "norm"])
def test_numbers_that_no_row_has_are_refused(tmp_path: Path, name: str, wrong: float) -> None:
    values = getattr(any_sketch(V, D, 8), name).clone()
    values[5] = wrong
    assert name in refused(replaced(tmp_path / "a", **{name: values}))


@pytest.mark.parametrize("name", ["transform", "mean"])
def test_a_transform_that_is_not_finite_is_refused(tmp_path: Path, name: str) -> None:
    values = getattr(any_sketch(V, D, 8), name).clone()
    values[0] = float("nan")
    assert name in refused(replaced(tmp_path / "a", **{name: values}))


def test_padding_with_a_scale_is_refused(tmp_path: Path) -> None:
    scale = any_sketch(V, D, 8).scale.clone()
    scale[V] = 1
    assert "after the vocabulary" in refused(replaced(tmp_path / "a", scale=scale))


@pytest.mark.parametrize("wrong", [-1, -2, V, 2**31 - 1, "twice"])
def test_clusters_that_hold_a_row_twice_or_none_are_refused(tmp_path: Path, wrong: int | str) -> None:
    clusters = any_clusters(V, D)
    flat = clusters.members.view(-1)
    flat[0] = flat[1] if wrong == "twice" else int(wrong)
    path = str(tmp_path / "a")
    rows = digest.of_rows(head(V, D))
    artefact.write(
        path,
        any_sketch(V, D, 2),
        digests=rows,
        seed=0,
        dtype="bfloat16",
        source="m",
        positions=1,
        clusters=clusters,
    )
    assert "clusters" in refused(path)


# Whose it is


@pytest.fixture
def sound(tmp_path: Path) -> Artefact:
    return artefact.read(written(tmp_path / "a"))


def test_the_head_it_was_built_of_is_known_in_every_type(sound: Artefact) -> None:
    weight = head(V, D)
    artefact.check(sound, weight)
    artefact.check(sound, weight.float())
    artefact.check(sound, torch.cat([weight, torch.full((9, D), float("nan"), dtype=weight.dtype)]), 0, V)


@pytest.mark.parametrize(("start", "stop"), [(0, 64), (64, 128), (3, 77), (128, 200), (200, 200)])
def test_a_part_of_the_head_is_known_alone(sound: Artefact, start: int, stop: int) -> None:
    weight = head(V, D)[start:stop]
    artefact.check(sound, weight, start, stop)
    if stop > start:
        with pytest.raises(ArtefactForeignError, match=f"{stop - start} rows differ"):
            artefact.check(sound, -weight, start, stop)


def foreign(sound: Artefact, weight: torch.Tensor, start: int = 0, stop: int | None = None) -> str:
    with pytest.raises(ArtefactForeignError) as raised:
        artefact.check(sound, weight, start, stop)
    assert "vplug-logits build" in str(raised.value)
    return raised.value.reason


def test_another_head_is_told_with_what_differs(sound: Artefact) -> None:
    weight = head(V, D)
    assert "(200, 24)" in foreign(sound, weight[:, :-1])
    assert "(200, 24)" in foreign(sound, weight[:-1])
    assert "(201, 24)" in foreign(sound, torch.cat([weight, weight[:1]]))  # padding only where somebody says so
    assert "(200, 24)" in foreign(sound, weight.flatten())
    assert "int8" in foreign(sound, weight.to(torch.int8))
    changed = weight.clone()
    changed[[3, 50, 199], 0] += 1
    assert "3 of 200 rows differ." in foreign(sound, changed)
    assert "it was in bfloat16, this one is in float16" in foreign(sound, head(V, D, dtype=torch.float16))


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (5, 4), (0, V + 1)])
def test_rows_outside_the_vocabulary_are_no_part(sound: Artefact, start: int, stop: int) -> None:
    with pytest.raises(BadInputError, match="vocabulary of 200"):
        artefact.check(sound, head(V, D), start, stop)
    with pytest.raises(BadInputError, match="vocabulary of 200"):
        artefact.shard(sound, start, stop)


# Parts


def row_codes(sketch: Sketch) -> torch.Tensor:
    """The code bytes of each row, in the order they are stored."""
    blocks, lanes, rows, lane = sketch.codes.shape
    return sketch.codes.permute(0, 2, 1, 3).reshape(blocks * rows, lanes * lane)[: sketch.vocabulary]


@pytest.mark.parametrize("bits", [1, 8])
@pytest.mark.parametrize(("start", "stop"), [(0, 64), (64, 200), (64, 64), (3, 77), (128, 150), (199, 200), (200, 200)])
def test_a_part_has_the_rows_of_the_whole(tmp_path: Path, bits: int, start: int, stop: int) -> None:
    whole = artefact.read(written(tmp_path / "a", bits=bits))
    part = artefact.shard(whole, start, stop)
    assert part.vocabulary == stop - start
    assert part.codes.shape[0] * 64 == part.scale.shape[0] == part.residual.shape[0]
    assert torch.equal(row_codes(part), row_codes(whole.sketch)[start:stop])
    for name in ("scale", "residual", "norm") if bits == 8 else ("scale", "residual"):
        values = getattr(part, name)
        assert torch.equal(values[: stop - start], getattr(whole.sketch, name)[start:stop])
        assert not values[stop - start :].any()
    assert (part.norm is None) == (bits != 8)
    if start % 64 == 0 and stop in {64, V}:
        assert part.codes.numel() == 0 or part.codes.data_ptr() == whole.sketch.codes[start // 64 :].data_ptr()
