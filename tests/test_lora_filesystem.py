"""Adapters from a folder: what is served, from where, and with which code everything else is refused."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lora_lab import BASE, adapter, config, content, weights
from sites import Fifo, Link, Socket, Sparse, build
from vplug_rs.lora import snapshots
from vplug_rs.lora.filesystem import FilesystemResolver
from vplug_rs.lora.refusal import Refusal
from vplug_rs.lora.resolver import Request

CONFIG, SAFETENSORS = "adapter_config.json", "adapter_model.safetensors"
PICKLE = b"\x80\x04N."


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files, so that what lies there is seen."""
    where = tmp_path / "temporary"
    where.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(where))
    yield where
    for process in list(snapshots._homes):
        snapshots._remove_home(process)


def find(folder: Path, name: str = "a", base: str = BASE, **options: Any) -> dict[str, bytes]:
    return content(FilesystemResolver(folder, **options).find(Request(name, base)).path)


def refused(folder: Path, name: str = "a", base: str = BASE, **options: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        FilesystemResolver(folder, **options).find(Request(name, base))
    assert caught.value.hint
    assert str(caught.value).isprintable()
    return caught.value


def copies(temporary: Path) -> list[Path]:
    return [copy for home in temporary.iterdir() for copy in home.iterdir()]


@pytest.mark.parametrize("name", ["a", "team/a", "one/two/three/four", "größe"])
def test_an_adapter_is_found_by_its_path_below_the_folder(name: str, tmp_path: Path) -> None:
    build(tmp_path / "lora" / name, adapter())
    assert find(tmp_path / "lora", name) == adapter()


def test_what_comes_back_says_how_it_was_found(tmp_path: Path) -> None:
    build(tmp_path / "lora", {"a": adapter(r=16)})
    found = asyncio.run(FilesystemResolver(tmp_path / "lora", aliases=[BASE]).resolve(Request("a", "/models/base")))
    assert (found.name, found.config.base, found.config.rank) == ("a", BASE, 16)
    assert (found.matched, found.resolver) == ("alias", "filesystem")
    assert os.path.isabs(found.path)


def test_the_folder_itself_may_be_reached_by_links(tmp_path: Path) -> None:
    build(tmp_path, {"real": {"a": adapter()}, "link": Link("real")})
    assert find(tmp_path / "link") == adapter()


def test_the_copy_is_the_users_own_and_has_what_vllm_loads_and_nothing_else(tmp_path: Path, temporary: Path) -> None:
    more: Any = {"README.md": b"x", "adapter_model.bin": PICKLE, "tokenizer.json": b"{}", "sub": {"x": b""}}
    build(tmp_path / "lora", {"a": {**adapter(), **more}})
    assert find(tmp_path / "lora", allow_pickle=True) == adapter()
    (home,) = temporary.iterdir()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_an_unchanged_adapter_is_copied_once_and_a_changed_one_again(tmp_path: Path, temporary: Path) -> None:
    build(tmp_path / "lora", {"a": adapter()})
    resolver = FilesystemResolver(tmp_path / "lora")
    first = resolver.find(Request("a", BASE)).path
    assert resolver.find(Request("a", BASE)).path == first
    (tmp_path / "lora" / "a" / CONFIG).write_bytes(config(r=32))
    second = resolver.find(Request("a", BASE))
    assert (second.config.rank, content(second.path)[CONFIG]) == (32, config(r=32))
    (tmp_path / "lora" / "a" / SAFETENSORS).write_bytes(weights(b"no"))
    third = resolver.find(Request("a", BASE)).path
    assert content(third)[SAFETENSORS] == weights(b"no")
    assert set(copies(temporary)) == {Path(second.path), Path(third)}, "no more than the one before stays"


def test_a_copy_that_somebody_removed_is_made_again(tmp_path: Path, temporary: Path) -> None:
    build(tmp_path / "lora", {"a": adapter()})
    resolver = FilesystemResolver(tmp_path / "lora")
    snapshots.remove(resolver.find(Request("a", BASE)).path)
    assert content(resolver.find(Request("a", BASE)).path) == adapter()
    (home,) = temporary.iterdir()
    snapshots.remove(str(home))
    assert content(resolver.find(Request("a", BASE)).path) == adapter()


def test_fifty_requests_at_once_make_one_copy(tmp_path: Path, temporary: Path) -> None:
    build(tmp_path / "lora", {"a": adapter()})
    resolver = FilesystemResolver(tmp_path / "lora")

    async def all_of_them() -> set[str]:
        found = await asyncio.gather(*(resolver.resolve(Request("a", BASE)) for _ in range(50)))
        return {one.path for one in found}

    paths = asyncio.run(all_of_them())
    assert len(paths) == 1
    assert [str(copy) for copy in copies(temporary)] == list(paths)


def test_what_was_handed_out_stays_what_it_was_whatever_becomes_of_the_folder(tmp_path: Path) -> None:
    build(tmp_path, {"lora": {"a": adapter()}, "outside": {"secret": adapter(r=99)}})
    path = FilesystemResolver(tmp_path / "lora").find(Request("a", BASE)).path
    (tmp_path / "lora" / "a" / SAFETENSORS).write_bytes(b"torn")
    (tmp_path / "lora" / "a").rename(tmp_path / "lora" / "b")
    (tmp_path / "lora" / "a").symlink_to("../outside/secret")
    (tmp_path / "lora" / "b" / CONFIG).unlink()
    (tmp_path / "lora" / "b" / CONFIG).symlink_to("../../outside/secret/" + CONFIG)
    assert content(path) == adapter()


NODES: list[tuple[str, str, Any]] = [
    ("not-found", "a", {}),
    ("not-found", "A", {"a": adapter()}),
    ("not-found", "t/a", {"t": {}}),
    ("not-found", "t/a", {"a": adapter()}),
    ("not-a-folder", "a", {"a": b"file"}),
    ("not-a-folder", "a/b", {"a": b"file"}),
    ("not-a-folder", "a/adapter_config.json", {"a": adapter()}),
    ("not-a-folder", "a", {"a": Fifo()}),
    ("not-a-folder", "a", {"a": Socket()}),
    ("symlink", "a", {"a": Link("b"), "b": adapter()}),
    ("symlink", "a", {"a": Link("../outside")}),
    ("symlink", "a", {"a": Link("/")}),
    ("symlink", "a", {"a": Link("a")}),
    ("symlink", "a", {"a": Link("nowhere")}),
    ("symlink", "a", {"a": Link("/proc/self/cwd")}),
    ("symlink", "a", {"a": Link("/dev/zero")}),
    ("symlink", "t/a", {"t": Link("../outside")}),
    ("symlink", "t/u/a", {"t": {"u": Link("../../outside")}}),
    ("symlink", "t/u/a", {"t": Link("v"), "v": {"u": {"a": adapter()}}}),
    *(
        ("symlink", "a", {"a": {**adapter(), file: Link(target)}})
        for file in (CONFIG, SAFETENSORS)
        for target in (
            f"../../outside/a/{file}",
            "/etc/passwd",
            "/dev/zero",
            "/proc/self/environ",
            "nowhere",
            file,
            "..",
            "same",
        )
    ),
    *(
        ("not-a-file", "a", {"a": {**adapter(), file: node}})
        for file in (CONFIG, SAFETENSORS)
        for node in ({}, {"x": b""}, Fifo(), Socket())
    ),
    ("config-missing", "a", {"a": {}}),
    ("config-missing", "a", {"a": {SAFETENSORS: weights()}}),
    ("config-missing", "t", {"t": {"a": adapter()}}),
    ("config-too-large", "a", {"a": {**adapter(), CONFIG: Sparse(1 << 30, config())}}),
    ("config-too-large", "a", {"a": {**adapter(), CONFIG: config(x="y" * (1 << 20))}}),
    ("config-invalid", "a", {"a": {**adapter(), CONFIG: b""}}),
    ("config-invalid", "a", {"a": {**adapter(), CONFIG: Sparse(1 << 19)}}),
    ("config-key", "a", {"a": {**adapter(), CONFIG: b"{}"}}),
    ("peft-type", "a", {"a": adapter(peft_type="IA3")}),
    ("base-mismatch", "a", {"a": adapter(base_model_name_or_path="acme/other")}),
    ("weights-missing", "a", {"a": {CONFIG: config()}}),
    ("weights-missing", "a", {"a": {CONFIG: config(), "model.safetensors": weights()}}),
    ("weights-missing", "a", {"a": {CONFIG: config(), "adapter_model-00001-of-00002.safetensors": weights()}}),
    ("weights-missing", "a", {"a": {CONFIG: config(), "Adapter_Model.safetensors": weights()}}),
    ("weights-missing", "a", {"a": {CONFIG: config(), "adapter_model.pth": PICKLE}}),
    ("weights-missing", "a", {"a": {CONFIG: config(), "adapter_model.pkl": PICKLE}}),
    ("weights-pickled", "a", {"a": {CONFIG: config(), "adapter_model.bin": PICKLE}}),
    ("weights-pickled", "a", {"a": {CONFIG: config(), "adapter_model.pt": PICKLE}}),
    ("weights-too-large", "a", {"a": {**adapter(), SAFETENSORS: Sparse(1 << 40, weights())}}),
    ("weights-invalid", "a", {"a": {**adapter(), SAFETENSORS: b""}}),
    ("weights-invalid", "a", {"a": {**adapter(), SAFETENSORS: PICKLE}}),
    ("weights-invalid", "a", {"a": {**adapter(), SAFETENSORS: Sparse(1 << 30, weights())}}),
    ("weights-invalid", "a", {"a": {**adapter(), SAFETENSORS: weights()[:-1]}}),
]


@pytest.mark.parametrize(
    ("code", "name", "tree"), NODES, ids=[f"{node[0]}-{index}" for index, node in enumerate(NODES)]
)
def test_what_is_not_an_adapter_in_plain_files_is_refused(
    code: str, name: str, tree: Any, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # sockets have short names only
    build(Path(), {"lora": tree, "outside": {**adapter(), "a": adapter(), "u": {"a": adapter()}}})
    refusal = refused(Path("lora"), name)
    assert refusal.code == code, refusal
    assert not temporary.exists() or copies(temporary) == [], "a refused adapter leaves something behind"


@pytest.mark.parametrize("file", ["adapter_model.bin", "adapter_model.pt"])
def test_pickled_weights_are_served_where_that_is_allowed(file: str, tmp_path: Path) -> None:
    tree = {CONFIG: config(), file: PICKLE}
    build(tmp_path / "lora", {"a": tree})
    assert find(tmp_path / "lora", allow_pickle=True) == tree
    assert "VPLUG_LORA_ALLOW_PICKLE" in str(refused(tmp_path / "lora").hint)


def test_pickled_weights_that_are_a_link_are_refused_even_then(tmp_path: Path) -> None:
    build(
        tmp_path,
        {"lora": {"a": {CONFIG: config(), "adapter_model.bin": Link("../../outside.bin")}}, "outside.bin": PICKLE},
    )
    assert refused(tmp_path / "lora", allow_pickle=True).code == "symlink"


def test_a_damaged_safetensors_file_is_not_replaced_by_a_pickle(tmp_path: Path) -> None:
    build(tmp_path / "lora", {"a": {CONFIG: config(), SAFETENSORS: b"", "adapter_model.bin": PICKLE}})
    assert refused(tmp_path / "lora", allow_pickle=True).code == "weights-invalid"


@pytest.mark.parametrize("tree", [None, b"file", Fifo()], ids=str)
def test_a_folder_that_is_none_is_told(tree: Any, tmp_path: Path) -> None:
    if tree is not None:
        build(tmp_path, {"lora": tree})
    refusal = refused(tmp_path / "lora")
    assert refusal.code == "folder-unavailable"
    assert "VPLUG_LORA_DIR" in str(refusal.hint)


@pytest.mark.parametrize("part", ["a", CONFIG, SAFETENSORS])
@pytest.mark.parametrize(
    "number", [errno.EACCES, errno.EIO, errno.EMFILE, errno.ESTALE, errno.ENXIO], ids=errno.errorcode.get
)
def test_what_the_system_refuses_to_open_is_told(
    part: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path / "lora", {"a": adapter()})
    genuine = os.open

    def fail(path: Any, *arguments: Any, **options: Any) -> int:
        if path == part:
            raise OSError(number, os.strerror(number), path)
        return genuine(path, *arguments, **options)

    monkeypatch.setattr("os.open", fail)
    assert refused(tmp_path / "lora").code == ("not-a-file" if number == errno.ENXIO else "unreadable")


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is unreadable to root")
@pytest.mark.parametrize("path", ["a", f"a/{CONFIG}", f"a/{SAFETENSORS}"])
def test_what_may_not_be_read_is_told(path: str, tmp_path: Path) -> None:
    build(tmp_path / "lora", {"a": adapter()})
    (tmp_path / "lora" / path).chmod(0)
    try:
        assert refused(tmp_path / "lora").code == "unreadable"
    finally:
        (tmp_path / "lora" / path).chmod(0o700)


def test_no_room_for_the_copy_is_told_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "lora", {"a": adapter()})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    refusal = refused(tmp_path / "lora")
    assert refusal.code == "snapshot-failed"
    assert "TMPDIR" in str(refusal.hint)


def test_descriptors_are_closed_whatever_happens(tmp_path: Path) -> None:
    build(
        tmp_path / "lora",
        {"a": adapter(), "b": adapter(r=0), "c": Link("a"), "d": {}, "e": {**adapter(), CONFIG: Fifo()}},
    )
    resolver = FilesystemResolver(tmp_path / "lora")
    resolver.find(Request("a", BASE))
    before = os.listdir("/proc/self/fd")
    for name in ("a", "b", "c", "d", "e", "a/b", "x"):
        if name == "a":
            resolver.find(Request(name, BASE))
        else:
            with pytest.raises(Refusal):
                resolver.find(Request(name, BASE))
    assert os.listdir("/proc/self/fd") == before


def test_a_file_that_grows_while_it_is_copied_is_never_handed_out_torn(tmp_path: Path) -> None:
    whole = weights(
        header={"t": {"dtype": "U8", "shape": [1 << 20], "data_offsets": [0, 1 << 20]}}, data=b"x" * (1 << 20)
    )
    build(tmp_path / "lora", {"a": {CONFIG: config(), SAFETENSORS: whole}})
    resolver = FilesystemResolver(tmp_path / "lora")
    stop = threading.Event()

    def rewrite() -> None:
        while not stop.is_set():
            with (tmp_path / "lora" / "a" / SAFETENSORS).open("r+b") as file:
                file.truncate(len(whole) // 2)
                file.seek(0)
                file.write(whole)

    writer = threading.Thread(target=rewrite)
    writer.start()
    codes = []
    try:
        for _ in range(100):
            try:
                assert content(resolver.find(Request("a", BASE)).path)[SAFETENSORS] == whole
                codes.append("served")
            except Refusal as refusal:
                codes.append(refusal.code)
    finally:
        stop.set()
        writer.join()
    assert set(codes) <= {"served", "changed", "weights-invalid"}
    assert json.dumps(codes)
