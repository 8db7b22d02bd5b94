"""The unwinder that `build.rs` links in: panics must still become exceptions, on every interpreter.

The extension itself has no panic to offer, so one is made that panics, from this project's own manifest, lock file and
build script.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interpreters import clean_environment, each_minor, need
from shared_libraries import has_static_unwinder, needed

ROOT = Path(__file__).resolve().parent.parent

PANICKING = """
//! Panics when asked to.
#![allow(missing_docs, clippy::panic, clippy::allow_attributes, clippy::allow_attributes_without_reason)]
#[pyo3::pymodule(gil_used = false)]
mod _core {
    struct Witness(std::sync::Arc<std::sync::atomic::AtomicUsize>);
    impl Drop for Witness {
        fn drop(&mut self) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    }
    #[pyo3::pyfunction]
    fn panic(depth: usize) {
        if depth == 0 {
            panic!("asked for");
        }
        panic(depth - 1);
        std::hint::black_box(depth);
    }
    /// How many values a caught panic has dropped on its way.
    #[pyo3::pyfunction]
    fn caught() -> usize {
        let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let inner = count.clone();
        let result = std::panic::catch_unwind(move || {
            let _first = Witness(inner.clone());
            let _second = Witness(inner);
            panic(3);
        });
        assert!(result.is_err());
        count.load(std::sync::atomic::Ordering::SeqCst)
    }
    #[pymodule_export]
    const READY: bool = true;
}
"""

ASK = """
import threading
import _core
assert _core.READY
def provoke():
    try:
        _core.panic(5)
    except BaseException as error:
        print(type(error).__module__, type(error).__name__, error, flush=True)
provoke()
thread = threading.Thread(target=provoke)
thread.start()
thread.join()
print(_core.caught())
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.every_python,  # once is enough: the compiler's work is the same for each, and its folder is one
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform != "linux", reason="the build script does nothing elsewhere"),
    pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo"),
]


def build(where: Path, **settings: str) -> Path:
    """Build an extension that panics, and give the folder to import `_core` from."""
    (where / "src").mkdir(parents=True)
    (where / "src" / "lib.rs").write_text(PANICKING, "utf-8")
    for name in ("build.rs", "Cargo.lock"):
        shutil.copy(ROOT / name, where)
    manifest = (ROOT / "Cargo.toml").read_text("utf-8")
    manifest, cut = re.subn(r"\[\[(?:test|bench)\]\]\n(?:.+\n)+", "", manifest)
    assert cut, "the manifest names its tests"
    manifest, cut = re.subn(r"(?m)^members = .*\n", "", manifest)
    assert cut, "the manifest names the other crates, which stay here"
    (where / "Cargo.toml").write_text(manifest, "utf-8")
    # The same folder as the project's own build, so that pyo3 need not be compiled again.
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "unwinder"
    environment = clean_environment(
        CARGO_TARGET_DIR=str(target), PYO3_BUILD_EXTENSION_MODULE="1", PYO3_PYTHON=sys.executable, **settings
    )
    done = subprocess.run(
        ["cargo", "build", "--release", "--locked", "--features", "python"],
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (where / "built").mkdir()
    shutil.copy(target / "release" / "libvplug_rs.so", where / "built" / "_core.abi3.so")
    return where / "built"


@pytest.fixture(scope="module")
def panicking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of an extension built as ours is."""
    return build(tmp_path_factory.mktemp("panicking") / "crate")


@each_minor()
def test_a_panic_becomes_an_exception(minor: int, panicking: Path) -> None:
    done = subprocess.run(
        [need(minor).executable, "-c", ASK],
        env=clean_environment(PYTHONPATH=str(panicking)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["pyo3_runtime PanicException asked for"] * 2 + ["2"]


def test_the_unwinder_is_inside(panicking: Path) -> None:
    if not has_static_unwinder():
        pytest.skip("this compiler has no libgcc_eh.a: the build has said so in a warning")
    assert not [name for name in needed(panicking / "_core.abi3.so") if name.startswith("libgcc_s")]


def test_the_shared_one_can_be_asked_for(tmp_path: Path) -> None:
    folder = build(tmp_path / "crate", VPLUG_BUILD_SHARED_UNWINDER="1")
    assert "libgcc_s.so.1" in needed(folder / "_core.abi3.so")
