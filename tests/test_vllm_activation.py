"""What becomes of a process that VPLUG_VLLM takes part in: by each door, with a stand-in for vLLM of its real shape."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import vllm_source
from interpreters import clean_environment, shared_import_root
from sites import build, dist
from vplug_rs import env
from vplug_rs.vllm import versions

if TYPE_CHECKING:
    from sites import Node

ROOT = Path(__file__).resolve().parent.parent
GENERAL = "vllm.general_plugins"
TELL = """
from vplug_rs.vllm import activation
state = activation.state()
print(state.state, state.door, sorted(patch.name for patch in state.patches if patch.state == "applied"), sep="|")
"""
BOTH = "['load_endpoint_plugins', 'load_general_plugins', 'load_plugins_by_group']"
PLATFORMS = "['resolve_current_platform_cls_qualname']"


class Host:
    """A site with vLLM's real loading module over stubs, and processes that use it."""

    def __init__(self, folder: Path, *, version: str = "0.33.1", distribution: str = "vllm") -> None:
        self.site = folder / "site"
        self.site.mkdir()
        tree: dict[str, Node] = {
            "vllm": {
                "__init__.py": "",
                "envs.py": "import os\n"
                "def __getattr__(name):\n"
                "    if name == 'VLLM_PLUGINS':\n"
                "        text = os.environ.get(name)\n"
                "        return None if text is None else text.split(',')\n"
                "    if name == 'VLLM_TARGET_DEVICE':\n"
                "        return os.environ.get(name, '')\n"
                "    raise AttributeError(name)\n",
                "plugins": {"__init__.py": (vllm_source.modules() / "plugins.py").read_text("utf-8")},
                "ray": {"__init__.py": "", "ray_env.py": "DEFAULT_ENV_VAR_PREFIXES = {'VLLM_'}\n"},
            },
            # what `import torch` does with its backends
            "torch.py": "from importlib.metadata import entry_points\n"
            "for point in entry_points(group='torch.backends'):\n    point.load()()\n",
        }
        build(self.site, tree)
        build(self.site, dist(distribution, version, ""))
        doors = (ROOT / "pyproject.toml").read_text("utf-8").partition('[project.entry-points."torch.backends"]')[2]
        (line,) = [line for line in doors.splitlines() if line.startswith("vplug_rs = ")][:1]
        build(self.site, dist("vplug_rs", "0.1.0", f"[torch.backends]\n{line.replace(chr(34), '')}\n"))

    def plugin(self, name: str, source: str) -> Host:
        """A general plugin of a distribution of its own."""
        build(self.site, dist(f"acme-{name}", "1.0", f"[{GENERAL}]\n{name} = {name}_mod:register\n"))
        build(self.site, {f"{name}_mod.py": textwrap.dedent(source)})
        return self

    def run(self, code: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run code in a fresh process."""
        path = f"{self.site}:{shared_import_root()}"
        return subprocess.run(
            [sys.executable, *(words or ("-c", textwrap.dedent(code)))],
            env=clean_environment(PYTHONPATH=path, **environment),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("word", ["1", "on", "TRUE", " yes "])
def test_the_first_door_takes_part_before_vllm_is_imported(host: Host, word: str) -> None:
    out = ok(host.run(f"import torch, vllm.plugins\n{TELL}", VPLUG_VLLM=word))
    assert out == f"active|torch.backends|{BOTH}\n"


@pytest.mark.parametrize("word", [None, "", "0", "off", "False", "no"])
def test_without_the_variable_nothing_happens_and_nothing_is_loaded(host: Host, word: str | None) -> None:
    code = (
        "import sys, torch, vllm.plugins\nprint(*[n for n in sys.modules if n.startswith('vplug_rs.vllm.')], sep='|')"
    )
    done = host.run(code, **({} if word is None else {"VPLUG_VLLM": word}))
    assert ok(done) == "vplug_rs.vllm.doors\n"
    assert done.stderr == ""


def test_a_word_that_is_neither_on_nor_off_is_told(host: Host) -> None:
    done = host.run(f"import torch\n{TELL}", VPLUG_VLLM="maybe")
    assert ok(done) == "inert|torch.backends|[]\n"
    (line,) = done.stderr.splitlines()
    assert "VPLUG_VLLM is 'maybe'" in line


def test_the_second_door_rebinds_what_was_bound_by_name(host: Host) -> None:
    build(host.site, {"vllm": {"user.py": "from vllm.plugins import load_general_plugins\n"}})
    code = f"""
        import vllm.plugins, vllm.user
        from vplug_rs.vllm import doors
        before = vllm.user.load_general_plugins
        assert doors.platform() is None
        assert vllm.user.load_general_plugins is vllm.plugins.load_general_plugins is not before
        {TELL.strip().replace(chr(10), chr(10) + " " * 8)}
    """
    assert ok(host.run(code, VPLUG_VLLM="1")) == f"active|vllm.platform_plugins|{BOTH}\n"


def test_vplug_run_takes_part_at_the_start_of_every_process(host: Host) -> None:
    child = f"import sys, subprocess\nsubprocess.run([sys.executable, '-c', {f'import vllm.plugins{TELL}'!r}])"
    words = ("-m", "vplug_rs", "run", "--", sys.executable, "-c", child)
    assert ok(host.run("", *words, VPLUG_VLLM="1")) == f"active|vplug run|{BOTH}\n"
    assert ok(host.run("", *words)) == "off||[]\n"


@pytest.mark.parametrize("version", ["0.34.0", "1.0", "0.9.1"])
def test_a_version_that_is_not_known_is_left_alone_with_one_line(tmp_path: Path, version: str) -> None:
    done = Host(tmp_path, version=version).run(f"import torch, vllm.plugins\n{TELL}", VPLUG_VLLM="1")
    assert ok(done) == "inert|torch.backends|[]\n"
    (line,) = done.stderr.splitlines()
    assert version in line
    assert all(known in line for known in versions.SUPPORTED)


def test_a_program_with_torch_and_without_vllm_is_left_alone_without_a_word(tmp_path: Path) -> None:
    done = Host(tmp_path, distribution="other").run(f"import torch\n{TELL}", VPLUG_VLLM="1")
    assert ok(done) == "inert|torch.backends|[]\n"
    assert done.stderr == ""


def test_a_function_with_another_signature_stays_with_a_warning(host: Host) -> None:
    file = host.site / "vllm" / "plugins" / "__init__.py"
    text = file.read_text("utf-8")
    changed = text.replace("def load_plugins_by_group(group: str)", "def load_plugins_by_group(group: str, more=None)")
    assert changed != text
    file.write_text(changed, "utf-8")
    done = host.run(f"import torch, vllm.plugins\n{TELL}", VPLUG_VLLM="1")
    assert ok(done) == "active|torch.backends|['load_endpoint_plugins', 'load_general_plugins']\n"
    assert "vLLM's load_plugins_by_group stays as it is" in done.stderr


BROKEN = "def register():\n    raise RuntimeError('no model for you')\n"
LOAD = "import torch, vllm.plugins\nvllm.plugins.load_general_plugins()\nprint('started')"


def test_a_plugin_that_raises_stops_vllm_alone_and_is_named_by_us(host: Host) -> None:
    host.plugin("broken", BROKEN).plugin("good", "def register(): print('good')\n")
    alone, ours = host.run(LOAD), host.run(LOAD, VPLUG_VLLM="1")
    assert alone.returncode == 1
    assert "started" not in alone.stdout
    assert ok(ours) == "good\nstarted\n"
    assert "plugin `broken` of acme-broken 1.0 failed at call" in ours.stderr
    assert "raise RuntimeError('no model for you')" in ours.stderr


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"VPLUG_STRICT": "1"}, "1 of 2 plugins in vllm.general_plugins failed"),
        ({"VPLUG_REQUIRE": "broken"}, "a plugin that VPLUG_REQUIRE names failed: plugin `broken` of acme-broken 1.0"),
        ({"VPLUG_REQUIRE": "good, absent"}, "VPLUG_REQUIRE names `absent`, which no installed distribution offers"),
        ({"VPLUG_REQUIRE": "good", "VLLM_PLUGINS": "broken"}, "plugin `good` of acme-good 1.0, which VPLUG_REQUIRE"),
        ({"VPLUG_POLICY": "none.toml"}, "none.toml"),
        ({"VPLUG_STRICT": "1", "VLLM_PLUGINS": "goood"}, "`goood` in VLLM_PLUGINS names no plugin"),
    ],
)
def test_what_has_to_be_there_stops_the_start_by_name(host: Host, environment: dict[str, str], said: str) -> None:
    host.plugin("broken", BROKEN).plugin("good", "def register(): pass\n")
    done = host.run(LOAD, VPLUG_VLLM="1", **environment)
    assert done.returncode == 1
    assert "started" not in done.stdout
    assert said in done.stderr.splitlines()[-1] or said in done.stderr


def test_a_policy_file_takes_the_place_of_the_variable(host: Host, tmp_path: Path) -> None:
    host.plugin("one", "def register(): print('one')\n").plugin("two", "def register(): print('two')\n")
    policy = tmp_path / "vplug.toml"
    policy.write_text('allow = [" tw* "]\n', "utf-8")
    assert ok(host.run(LOAD, VPLUG_VLLM="1", VPLUG_POLICY=str(policy), VLLM_PLUGINS="one")) == "two\nstarted\n"


def test_each_is_called_once_in_a_process_whoever_asks(host: Host) -> None:
    host.plugin(
        "counted", "import vllm.plugins\ndef register():\n    print('call')\n    vllm.plugins.load_general_plugins()\n"
    )
    code = """
        import threading, torch, vllm.plugins
        threads = [threading.Thread(target=vllm.plugins.load_general_plugins) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(vllm.plugins.plugins_loaded)
    """
    assert ok(host.run(code, VPLUG_VLLM="1")) == "call\nTrue\n"


def test_a_fault_of_ours_leaves_the_answer_to_vllm(host: Host) -> None:
    host.plugin("good", "def register(): print('good')\n")
    code = """
        import torch, vllm.plugins
        from vplug_rs.vllm import selection
        def fault(*words): raise LookupError("ours")
        selection.VllmLoader._found = fault
        vllm.plugins.load_general_plugins()
    """
    done = host.run(code, VPLUG_VLLM="1")
    assert ok(done) == "good\n"
    assert "vplug_rs failed in place of load_general_plugins, which answers itself" in done.stderr


def test_our_variables_travel_to_ray_workers(host: Host) -> None:
    code = "import torch, os, vllm.ray.ray_env as e\nprint(sorted(e.DEFAULT_ENV_VAR_PREFIXES))"
    assert ok(host.run(code, VPLUG_VLLM="1")) == "['VLLM_', 'VPLUG_']\n"
    assert ok(host.run(code)) == "['VLLM_']\n"


def test_a_door_that_fails_lets_torch_go_on_with_a_line(host: Host) -> None:
    code = """
        import sys
        sys.modules["vplug_rs.vllm.activation"] = None
        import torch
        print("imported")
    """
    done = host.run(code, VPLUG_VLLM="1")
    assert ok(done) == "imported\n"
    assert done.stderr.startswith("vplug_rs takes no part in this vLLM: ModuleNotFoundError")


def page() -> str:
    return (ROOT / "docs" / "vllm.md").read_text("utf-8")


def test_the_page_has_every_variable_and_every_version() -> None:
    rows: Any = [row.split("|")[1].strip().strip("`") for row in page().splitlines() if row.startswith("| ")]
    assert set(env.VARIABLES) <= set(rows)
    assert set(versions.SUPPORTED) <= set(rows)


def test_a_policy_file_counts_for_logits_processors_too_and_that_is_told(host: Host, tmp_path: Path) -> None:
    points = "[vllm.logits_processors]\nkept = kept_mod:Kept\nout = out_mod:Out\n"
    build(host.site, dist("acme-logits", "1.0", points))
    build(host.site, {"kept_mod.py": "class Kept: pass\n", "out_mod.py": "raise SystemExit('imported')\n"})
    policy = tmp_path / "vplug.toml"
    policy.write_text('[groups."vllm.logits_processors"]\ndeny = ["out"]\n', "utf-8")
    code = "from vplug_rs.vllm.functions import load_logits_processors as load\nprint([one.__name__ for one in load()])"
    done = host.run(code, VPLUG_POLICY=str(policy))
    assert ok(done) == "['Kept']\n"
    assert "plugin `out` of acme-logits 1.0 is left out of vllm.logits_processors" in done.stderr
    assert "vLLM itself would load it" in done.stderr
