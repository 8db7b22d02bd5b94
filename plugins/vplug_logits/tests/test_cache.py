from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from vplug_logits import cache
from vplug_logits.config import Config
from vplug_logits.errors import ArtefactError

SAFE = Config.of("safe")
PACKAGE = Path(__file__).parent.parent / "python"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to other users")


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache of this test."""
    folder = tmp_path / "kept"
    monkeypatch.setenv("VPLUG_LOGITS_CACHE", str(folder))
    return folder


@pytest.fixture
def model(tmp_path: Path) -> str:
    folder = tmp_path / "A Model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return str(folder)


# Where


def test_the_cache_is_where_the_setting_says_then_xdg_then_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache.root("/named") == "/named"
    assert cache.root() == str(tmp_path / "kept")
    monkeypatch.setenv("VPLUG_LOGITS_CACHE", "~/mine")
    assert cache.root() == "/home/somebody/mine"
    monkeypatch.setenv("VPLUG_LOGITS_CACHE", " ")
    assert cache.root() == "/xdg/vplug_logits"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.root() == "/home/somebody/.cache/vplug_logits"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.root() == "/home/somebody/.cache/vplug_logits"


def test_a_place_is_in_a_folder_that_is_the_users_alone(model: str, kept: Path) -> None:
    path = cache.place(model, SAFE, dtype="bfloat16")
    assert os.path.dirname(path) == str(kept)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert cache.place(model, SAFE, dtype="bfloat16") == path


def test_the_configuration_names_another_folder(model: str, tmp_path: Path, kept: Path) -> None:
    path = cache.place(model, Config.of("safe", cache=str(tmp_path / "deep" / "other")), dtype="bfloat16")
    assert os.path.dirname(path) == str(tmp_path / "deep" / "other")
    assert not kept.exists()


def test_looking_makes_no_folder(model: str, kept: Path) -> None:
    assert cache.find(model, SAFE, dtype="bfloat16") is None
    assert not kept.exists()


def test_the_one_that_is_named_comes_before_the_one_beside_the_model_before_the_cache(
    model: str, tmp_path: Path
) -> None:
    in_cache = cache.place(model, SAFE, dtype="bfloat16")
    Path(in_cache).touch()
    assert cache.find(model, SAFE, dtype="bfloat16") == in_cache
    beside = Path(cache.place_beside(model, SAFE, dtype="bfloat16"))
    assert beside.parent == Path(model, "vplug_logits")
    beside.parent.mkdir()
    beside.touch()
    assert cache.find(model, SAFE, dtype="bfloat16") == str(beside)
    named = tmp_path / "named"
    named.touch()
    config = Config.of("safe", artefact=str(named))
    assert cache.find(model, config, dtype="bfloat16") == str(named)
    named.unlink()
    with pytest.raises(ArtefactError, match="VPLUG_LOGITS_ARTEFACT"):
        cache.find(model, config, dtype="bfloat16")


def test_the_one_beside_a_model_moves_with_it(model: str, tmp_path: Path) -> None:
    beside = Path(cache.place_beside(model, SAFE, dtype="bfloat16"))
    beside.parent.mkdir()
    beside.touch()
    os.rename(model, tmp_path / "moved")
    found = cache.find(str(tmp_path / "moved"), SAFE, dtype="bfloat16")
    assert found is not None and found.startswith(str(tmp_path / "moved"))


# Names


def test_a_name_begins_with_what_people_call_the_model(model: str) -> None:
    assert cache.name(model, SAFE, dtype="bfloat16").startswith("A-Model-2bit-bfloat16-seed0-")
    hub = cache.name("org/name", Config.of("clusters"), dtype="float32", seed=4)
    assert hub.startswith("org--name-2bit-clusters-float32-seed4-") and hub.endswith(".safetensors")


def test_a_snapshot_of_the_hub_is_called_by_its_model(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--org--name" / "snapshots" / "0123abc"
    snapshot.mkdir(parents=True)
    assert cache.readable(str(snapshot)) == "org--name"


@pytest.mark.parametrize("text", ["..", "/", "a\nb", "../../x", "é" * 300, "", "-", "name."])
def test_any_name_is_one_part_of_a_path(text: str) -> None:
    name = cache.name(text, SAFE, dtype="bfloat16")
    assert os.path.basename(name) == name and name.isascii() and name.isprintable() and len(name) < 200
    assert not name.startswith((".", "-"))


def test_everything_that_makes_another_sketch_makes_another_name(model: str) -> None:
    names = {
        cache.name(model, SAFE, dtype="bfloat16"),
        cache.name(model, SAFE, dtype="float32"),
        cache.name(model, SAFE, dtype="bfloat16", seed=1),
        cache.name(model, Config.of("fast"), dtype="bfloat16"),
        cache.name(model, Config.of("clusters"), dtype="bfloat16"),
        cache.name("org/name", SAFE, dtype="bfloat16"),
        cache.name("org/name", SAFE, dtype="bfloat16", revision="1"),
    }
    assert len(names) == 7
    assert cache.name(model, Config.of("safe", rows=9, z=6), dtype="bfloat16") in names


def test_a_model_by_another_path_is_the_same(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "link"
    link.symlink_to(model)
    name = cache.name(model, SAFE, dtype="bfloat16")
    assert cache.name(str(link), SAFE, dtype="bfloat16") == name
    monkeypatch.chdir(model)
    assert cache.name(".", SAFE, dtype="bfloat16") == name


def test_changed_weights_have_another_name(model: str) -> None:
    name = cache.name(model, SAFE, dtype="bfloat16")
    Path(model, "notes.txt").write_text("more")
    assert cache.name(model, SAFE, dtype="bfloat16") == name
    Path(model, "model.safetensors").write_bytes(b"other weights")
    assert cache.name(model, SAFE, dtype="bfloat16") != name


# Hub ids


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache with one model, `org/name`, at its commit `abc`."""
    kept = tmp_path / "hub" / "models--org--name"
    (kept / "refs").mkdir(parents=True)
    (kept / "refs" / "main").write_text("abc\n")
    (kept / "snapshots" / "abc").mkdir(parents=True)
    (kept / "snapshots" / "abc" / "config.json").write_text('{"torch_dtype": "float16"}')
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return kept


def test_a_hub_id_is_its_snapshot(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = str(hub / "snapshots" / "abc")
    assert cache.folder_of("org/name") == cache.folder_of("org/name", "abc") == snapshot
    assert cache.folder_of("org/name", "other") is None and cache.folder_of("org/none") is None
    assert cache.folder_of(snapshot) == snapshot
    by_id = cache.name("org/name", SAFE, dtype="bfloat16")
    assert by_id == cache.name(snapshot, SAFE, dtype="bfloat16") and by_id.startswith("org--name-")
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("HF_HOME", str(hub.parent.parent))
    assert cache.folder_of("org/name") == snapshot


def test_another_commit_of_a_hub_id_has_another_name(hub: Path) -> None:
    before = cache.name("org/name", SAFE, dtype="bfloat16")
    (hub / "snapshots" / "def").mkdir()
    (hub / "refs" / "main").write_text("def")
    assert cache.name("org/name", SAFE, dtype="bfloat16") != before


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ('{"dtype": "bfloat16"}', "bfloat16"),
        ('{"torch_dtype": "float32"}', "float32"),
        ('{"text_config": {"dtype": "float16"}}', "float16"),
        ("{}", None),
        ('{"dtype": 5}', None),
        ("[]", None),
        ("{", None),
    ],
)
def test_the_type_of_a_checkpoint_stands_in_its_configuration(model: str, text: str, dtype: str | None) -> None:
    Path(model, "config.json").write_text(text)
    assert cache.dtype_of(model) == dtype


def test_a_model_that_is_not_there_has_no_type(hub: Path) -> None:
    assert cache.dtype_of("org/none") is None and cache.dtype_of("org/name") == "float16"


# Whose


@as_root
def test_a_cache_of_another_user_is_refused(model: str, kept: Path) -> None:
    kept.mkdir(0o700)
    os.chown(kept, 12345, -1)
    for call in (cache.find, cache.place):
        with pytest.raises(ArtefactError, match="belongs to user 12345") as raised:
            call(model, SAFE, dtype="bfloat16")
        assert "VPLUG_LOGITS_CACHE" in str(raised.value)


@pytest.mark.parametrize("mode", [0o777, 0o707, 0o770, 0o1777])
def test_a_cache_that_others_can_write_is_refused(model: str, kept: Path, mode: int) -> None:
    kept.mkdir()
    kept.chmod(mode)
    for call in (cache.find, cache.place):
        with pytest.raises(ArtefactError, match="chmod 700"):
            call(model, SAFE, dtype="bfloat16")


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o500])
def test_a_cache_that_others_can_read_is_used(model: str, kept: Path, mode: int) -> None:
    kept.mkdir()
    kept.chmod(mode)
    assert cache.place(model, SAFE, dtype="bfloat16")


def test_a_file_where_the_cache_should_be_is_told(model: str, kept: Path) -> None:
    kept.touch()
    with pytest.raises(ArtefactError, match="is no folder"):
        cache.place(model, SAFE, dtype="bfloat16")
    with pytest.raises(ArtefactError, match="cannot be made"):
        cache.place(model, Config.of("safe", cache=str(kept / "below" / "it")), dtype="bfloat16")


# One at a time

HOLD = """
import sys, time
from vplug_logits import cache
with cache.locked(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""

COUNT = """
import os, sys, time
from vplug_logits import cache
path, log = sys.argv[1:]
with cache.locked(path):
    if not os.path.exists(path):
        open(log, "a").write("built\\n")
        time.sleep(0.05)
        open(path, "w").close()
"""


def child(code: str, *words: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(PACKAGE)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *words], env=environment, **pipes)


def test_many_builders_at_once_build_once(tmp_path: Path) -> None:
    path, log = tmp_path / "a", tmp_path / "log"
    children = [child(COUNT, str(path), str(log)) for _ in range(6)]
    for one in children:
        one.communicate(timeout=30)
        assert one.returncode == 0
    assert log.read_text() == "built\n"
    assert sorted(os.listdir(tmp_path)) == ["a", "log"]


def test_the_death_of_a_builder_frees_the_next_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    first = child(HOLD, str(path))
    assert first.stdout is not None and first.stdout.readline() == "held\n"
    Path(cache.unfinished(str(path)) + "123").write_bytes(b"half")
    second = child(HOLD, str(path))
    time.sleep(0.3)
    assert second.poll() is None and Path(cache.unfinished(str(path)) + "123").exists()
    first.kill()
    first.communicate(timeout=30)
    assert second.stdout is not None and second.stdout.readline() == "held\n"
    assert sorted(os.listdir(tmp_path)) == ["a.lock"]
    second.communicate("", timeout=30)
    assert not os.listdir(tmp_path)


def test_whoever_waited_for_a_lock_that_was_removed_waits_for_the_one_that_took_its_name(tmp_path: Path) -> None:
    path, lock = str(tmp_path / "a"), tmp_path / "a.lock"
    got = threading.Event()

    def wait() -> None:
        with cache.locked(path):
            got.set()

    waiter = threading.Thread(target=wait)
    with open(lock, "w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        waiter.start()
        while sum(os.path.realpath(f"/proc/self/fd/{fd}") == str(lock) for fd in os.listdir("/proc/self/fd")) < 2:
            time.sleep(0.01)
        time.sleep(0.1)  # from opening to waiting
        lock.unlink()
        with open(lock, "w") as second:
            fcntl.flock(second, fcntl.LOCK_EX)
            first.close()
            assert not got.wait(0.3)
    waiter.join(30)
    assert got.is_set()


def test_locks_of_two_artefacts_are_two(tmp_path: Path) -> None:
    with cache.locked(str(tmp_path / "a")), cache.locked(str(tmp_path / "b")):
        assert sorted(os.listdir(tmp_path)) == ["a.lock", "b.lock"]


def test_the_lock_ends_with_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    with pytest.raises(ValueError, match="inside"), cache.locked(path):
        raise ValueError("inside")
    with cache.locked(path):
        pass


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match=r"a\.lock: cannot be made"), cache.locked(str(tmp_path / "none" / "a")):
        pass


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArtefactError, match="cannot be made"), cache.locked(str(tmp_path / "a")):
        pass
    assert not (tmp_path / "elsewhere").exists()
