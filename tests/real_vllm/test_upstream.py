"""vLLM's own plugin tests, out of its source distribution, inside the real vLLM: without us, and on our loader."""

from __future__ import annotations

import ast
import sys
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import figures
import lab

TESTS = {
    "platform": ["plugins_tests/test_platform_plugins.py"],
    "others": [
        "plugins_tests/test_stats_logger_plugins.py",
        "plugins_tests/test_endpoint_plugins.py",
        "plugins_tests/test_io_processor_plugins.py",
        "test_zen_cpu_platform_detection.py",
    ],
}
PLUGINS = {  # a run has those of vLLM's test plugins that its tests are about, as in vLLM's own runs
    "platform": ["vllm_add_dummy_platform"],
    "others": ["vllm_add_dummy_endpoint_plugin", "vllm_add_dummy_stat_logger"],
}
PASSED = {"platform": 3, "others": 34}
USED = {
    "platform": ["vplug_rs.load_general_plugins", "vplug_rs.resolve_current_platform_cls_qualname"],
    "others": [
        "vplug_rs.load_endpoint_plugins",
        "vplug_rs.load_plugins_by_group",
        "vplug_rs.resolve_current_platform_cls_qualname",
    ],
}
# One of them runs an example with a model from the hub, and looks at the platform only.
EXAMPLE = "from vllm import LLM  # noqa: F401\n"


@pytest.fixture(scope="module")
def sources(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = request.config.getoption("--vllm-sources")
    if archive is None:
        pytest.skip("--vllm-sources names no source distribution")
    folder = tmp_path_factory.mktemp("upstream")
    wanted = [name for names in TESTS.values() for name in names]
    wanted += [f"plugins/{name}/" for names in PLUGINS.values() for name in names]
    with tarfile.open(archive) as opened:
        for member in opened.getmembers():
            _, _, name = member.name.partition("/tests/")
            if member.isfile() and name.startswith(tuple(wanted)):
                path = folder / "tests" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                file = opened.extractfile(member)
                assert file is not None
                path.write_bytes(file.read())
    example = folder / "examples" / "basic" / "offline_inference" / "basic.py"
    example.parent.mkdir(parents=True)
    example.write_text(EXAMPLE, "utf-8")
    for names in PLUGINS.values():
        for name in names:
            install(folder / "tests" / "plugins" / name)
    return folder


def install(folder: Path) -> None:
    """Write the metadata of a plugin that has a setup.py, as its installation would."""
    (call,) = [
        node.value
        for node in ast.parse((folder / "setup.py").read_text("utf-8")).body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
    said = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    information = folder / f"{said['name']}-{said['version']}.dist-info"
    information.mkdir()
    text = f"Metadata-Version: 2.1\nName: {said['name']}\nVersion: {said['version']}\n"
    (information / "METADATA").write_text(text, "utf-8")
    groups = [f"[{group}]\n" + "\n".join(points) for group, points in said["entry_points"].items()]
    (information / "entry_points.txt").write_text("\n".join(groups), "utf-8")


def run(folder: Path, sources: Path, part: str, model: Path, **more: str) -> Any:
    sites = [lab.HERE / "upstream", *(sources / "tests" / "plugins" / name for name in PLUGINS[part])]
    env = lab.environment(folder, *sites, **more)
    env |= {"UPSTREAM_MODEL": str(model), "UPSTREAM_RESULT": str(folder / "result")}
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    options = ["-p", "adapt", "-c", str(folder / "pytest.ini"), "-q", "-rf", "--import-mode=importlib", "-W", "ignore"]
    tests = [str(sources / "tests" / name) for name in TESTS[part]]
    return lab.run(folder, [sys.executable, "-P", "-m", "pytest", *options, *tests], env)


@pytest.mark.parametrize("part", list(TESTS))
def test_they_pass_on_our_loader_as_they_do_without_us(part: str, sources: Path, model: Path, tmp_path: Path) -> None:
    found = {}
    for side, more in (("without", {}), ("ours", lab.ON)):
        folder = tmp_path / side
        folder.mkdir()
        done = run(folder, sources, part, model, **more)
        assert done.answer is not None, done.log
        found[side] = done.answer["outcomes"]
        counts = Counter(found[side].values())
        figures.say("vLLM's own plugin tests", f"{part:8} {side:7}: {dict(counts)} in {done.seconds:.0f} s")
        assert done.answer["state"] == ("active" if more else None)
        assert done.answer["failures"] == 0
        if more:
            assert [label for label in USED[part] if not done.answer["calls"].get(label)] == []
        assert counts == {"passed": PASSED[part]}, done.log
    assert found["ours"] == found["without"]
