"""What becomes of a process that VPLUG_VLLM takes part in: by each door, with a stand-in for vLLM of its real shape."""

from __future__ import annotations

import ast
import inspect
import shutil
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
from vplug_rs.vllm import activation, versions

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


GUARD = """
from contextlib import contextmanager
inside = []
@contextmanager
def guard_cuda_initialization():
    inside.append(1)
    yield
    inside.pop()
"""
LOGITS_V1 = """
from vllm.utils.torch_utils import guard_cuda_initialization
def _load_logitsprocs_plugins(): return 'theirs'
"""
LOGITS_V2 = """
class LogitsProcessor: ...
def _load_v2_logitsprocs_plugins(): return 'theirs'
"""
REGISTRY = """
class Registry:
    def register(self, collector): self.collector = collector
registry = Registry()
def get_prometheus_registry(): return registry
"""
IO = """
from vllm.plugins import load_plugins_by_group
def get_io_processor(vllm_config, renderer, plugin_from_init=None): return 'theirs'
"""
ENDPOINTS = """
def attach_endpoint_plugins(app, supported_tasks):
    from vllm.plugins import load_endpoint_plugins
    app.plugins = load_endpoint_plugins(supported_tasks)
    for plugin in app.plugins:
        plugin.attach_router(app)
"""
MODULES = (
    "vllm.platforms",
    "vllm.plugins.io_processors",
    "vllm.plugins.endpoint_plugins.interface",
    "vllm.v1.sample.logits_processor",
    "vllm.v1.worker.gpu.sample.logits_processor.loader",
    "vllm.v1.metrics.prometheus",
)


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
                "plugins": {
                    "__init__.py": (vllm_source.modules() / "plugins.py").read_text("utf-8"),
                    "io_processors": {"__init__.py": IO},
                    "endpoint_plugins": {"__init__.py": "", "interface.py": ENDPOINTS},
                },
                "ray": {"__init__.py": "", "ray_env.py": "DEFAULT_ENV_VAR_PREFIXES = {'VLLM_'}\n"},
                "platforms": {
                    "__init__.py": (vllm_source.modules() / "platforms.py").read_text("utf-8"),
                    "interface.py": "CpuArchEnum = Platform = PlatformEnum = in_wsl = None\n",
                },
                "utils": {
                    "__init__.py": "",
                    "import_utils.py": "resolve_obj_by_qualname = None\n",
                    "torch_utils.py": GUARD,
                },
                "v1": {
                    "__init__.py": "",
                    "sample": {"__init__.py": "", "logits_processor": {"__init__.py": LOGITS_V1}},
                    "worker": {"gpu": {"sample": {"logits_processor": {"loader.py": LOGITS_V2}}}},
                    "metrics": {"prometheus.py": REGISTRY},
                    "executor": {
                        "ray_env_utils.py": "_RAY_WORKER_PRE_IMPORT_ENV_VARS = frozenset({'PYTHONHASHSEED'})\n"
                    },
                },
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

    def plugin(self, name: str, source: str, group: str = GENERAL) -> Host:
        """A plugin of a distribution of its own; a general one names `register`."""
        build(self.site, dist(f"acme-{name}", "1.0", f"[{group}]\n{name} = {name}_mod:register\n"))
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


def test_every_function_is_replaced_in_every_module(host: Host) -> None:
    code = f"import torch\nfrom importlib import import_module\nfor name in {MODULES!r}: import_module(name)\n{TELL}"
    _, _, names = ok(host.run(code, VPLUG_VLLM="1")).split("|")
    assert names.strip() == str(
        [
            "_load_logitsprocs_plugins",
            "_load_v2_logitsprocs_plugins",
            "attach_endpoint_plugins",
            "get_io_processor",
            "get_prometheus_registry",
            "load_endpoint_plugins",
            "load_general_plugins",
            "load_plugins_by_group",
            "resolve_current_platform_cls_qualname",
        ]
    )


def test_metadata_is_the_fast_one(host: Host) -> None:
    code = "import torch, importlib.metadata, sys\nprint('vplug_rs._strict._patch' in sys.modules)"
    assert [ok(host.run(code, **more)) for more in ({"VPLUG_VLLM": "1"}, {})] == ["True\n", "False\n"]


def test_a_broken_installation_of_ours_does_not_fail_torch(host: Host, tmp_path: Path) -> None:
    package = tmp_path / "broken" / "vplug_rs"
    shutil.copytree(shared_import_root() / "vplug_rs", package, ignore=shutil.ignore_patterns("*.so", "*.pyd"))
    for word, said in (("", ""), ("1", "vplug_rs takes no part in this vLLM: ImportError")):
        done = subprocess.run(
            [sys.executable, "-c", "import torch\nprint('imported')"],
            env=clean_environment(PYTHONPATH=f"{host.site}:{package.parent}", VPLUG_VLLM=word),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ok(done) == "imported\n"
        assert done.stderr.startswith(said)
        assert bool(done.stderr) == bool(said)


def test_a_module_that_is_half_imported_is_patched_when_it_is_whole(host: Host) -> None:
    file = host.site / "vllm" / "plugins" / "io_processors" / "__init__.py"
    file.write_text(f"from vplug_rs.vllm import doors\ndoors.platform()\n{IO}", "utf-8")
    code = f"import vllm.plugins.io_processors, json\n{TELL}"
    assert "get_io_processor" in ok(host.run(code, VPLUG_VLLM="1"))


def test_the_platform_is_chosen_by_our_rule(host: Host) -> None:
    host.plugin("chip", "def register(): return 'chip.Platform'\n", "vllm.platform_plugins")
    code = "import torch, vllm.platforms as p\nprint(p.resolve_current_platform_cls_qualname())"
    assert ok(host.run(code, VPLUG_VLLM="1")) == "chip.Platform\n"


IO_CODE = """
import torch
from types import SimpleNamespace as N
from vllm.plugins.io_processors import get_io_processor
config = N(model_config=N(hf_config=N(to_dict=lambda: {"io_processor_plugin": "model"})))
try:
    print(get_io_processor(config, "renderer", EXPLICIT))
except Exception as error:
    print(type(error).__mro__[-3].__name__, type(error).__name__, error)
"""


def io_plugins(host: Host) -> Host:
    source = """
        class {0}:
            def __init__(self, config, renderer): print("made")
            def __str__(self): return "{0} made for renderer"
        def register():
            print("called {0}")
            return "{0}_mod.{0}"
    """
    for name in ("model", "mine"):
        host.plugin(name, source.format(name), "vllm.io_processor_plugins")
    return host


@pytest.mark.parametrize(("explicit", "name"), [("None", "model"), ("'mine'", "mine")])
def test_the_io_processor_that_is_asked_for_is_made_once_and_alone(host: Host, explicit: str, name: str) -> None:
    out = ok(io_plugins(host).run(IO_CODE.replace("EXPLICIT", explicit), VPLUG_VLLM="1"))
    assert out == f"called {name}\nmade\n{name} made for renderer\n"


def test_an_io_processor_that_fails_in_its_constructor_is_not_made_again(host: Host) -> None:
    source = "class X:\n    def __init__(self, c, r):\n        print('made')\n        raise KeyError('mine')\n"
    host.plugin("x", source + "def register(): return 'x_mod.X'\n", "vllm.io_processor_plugins")
    done = host.run(IO_CODE.replace("EXPLICIT", "'x'"), VPLUG_VLLM="1")
    assert ok(done) == "made\nException KeyError 'mine'\n"
    assert "answers itself" not in done.stderr


APP = """
import torch
from vllm.plugins.endpoint_plugins.interface import attach_endpoint_plugins
class Route:
    def __init__(self, path, methods): self.path, self.methods = path, methods
class App:
    def __init__(self): self.routes = [Route("/v1/models", {"GET"})]
    def add(self, path): self.routes.append(Route(path, {"GET"}))
app = App()
try:
    attach_endpoint_plugins(app, ("generate",))
except Exception as error:
    print(type(error).__name__, error)
print([route.path for route in app.routes], [vars(one) for one in getattr(app, "plugins", [])])
"""
ENDPOINT = """
    class register:
        required_tasks = None
        def attach_router(self, app):
            print("attach")
            {}
        async def init_state(self, engine_client, state, args): pass
"""


def endpoint_host(host: Host, body: str) -> Host:
    return host.plugin("ep", ENDPOINT.format(body), "vllm.endpoint_plugins")


def test_routes_of_endpoint_plugins_that_collide_are_told_and_the_plugin_is_left_as_it_was(host: Host) -> None:
    done = endpoint_host(host, "app.add('/v1/models')").run(APP, VPLUG_VLLM="1", VLLM_PLUGINS="ep")
    assert ok(done) == "attach\n['/v1/models', '/v1/models'] [{}]\n"
    assert "plugin `ep` of acme-ep 1.0" in done.stderr
    assert "`GET /v1/models`" in done.stderr


def test_an_endpoint_plugin_that_fails_to_attach_fails_as_in_vllm_and_once(host: Host) -> None:
    endpoint_host(host, "raise TypeError('no')")
    alone, ours = (host.run(APP, VLLM_PLUGINS="ep", **more) for more in ({}, {"VPLUG_VLLM": "1"}))
    assert ok(alone) == ok(ours) == "attach\nTypeError no\n['/v1/models'] [{}]\n"
    assert "answers itself" not in ours.stderr


def test_logits_processors_are_loaded_under_vllms_guard_and_held_against_its_interface(host: Host) -> None:
    source = "import vllm.utils.torch_utils as u\nprint('guarded', len(u.inside))\nclass register: ...\n"
    host.plugin("lp", source, "vllm.logits_processors")
    v1 = (
        "import torch, vllm.v1.sample.logits_processor as m\nprint([c.__name__ for c in m._load_logitsprocs_plugins()])"
    )
    assert ok(host.run(v1, VPLUG_VLLM="1")) == "guarded 1\n['register']\n"
    v2 = "import torch, vllm.v1.worker.gpu.sample.logits_processor.loader as m\nm._load_v2_logitsprocs_plugins()"
    done = host.run(v2, VPLUG_VLLM="1")
    assert done.returncode == 1
    assert "WrongInterfaceError: plugin `lp` of acme-lp 1.0" in done.stderr


def test_metrics_are_in_the_registry_once(host: Host) -> None:
    code = """
        import torch, vllm.v1.metrics.prometheus as m
        first, second = m.get_prometheus_registry(), m.get_prometheus_registry()
        print(type(first.collector).__name__, first is second)
    """
    assert ok(host.run(code, VPLUG_VLLM="1")) == "Collector True\n"


WRONG = "register = 3\n"


@pytest.mark.parametrize(
    ("group", "source", "code", "environment", "said"),
    [
        ("endpoint_plugins", ENDPOINT.format("pass"), APP, {}, "endpoint plugins have to be named"),
        ("endpoint_plugins", "def register(): raise OSError('no')", APP, {"VLLM_PLUGINS": "p"}, "OSError: no"),
        (
            "endpoint_plugins",
            ENDPOINT.format("pass").replace("None", "('embed',)"),
            APP,
            {"VLLM_PLUGINS": "p"},
            "it asks for one of ('embed',)",
        ),
        (
            "stat_logger_plugins",
            WRONG,
            "load_plugins_by_group('vllm.stat_logger_plugins')",
            {},
            "wants the class itself",
        ),
        ("platform_plugins", "def register(): raise OSError('gone')", "resolve()", {}, "OSError: gone"),
        ("platform_plugins", "def register(): return ''", "resolve()", {}, "a class's dotted name is wanted"),
    ],
)
@pytest.mark.parametrize("variable", ["VPLUG_REQUIRE", "VPLUG_STRICT"])
def test_in_every_group_what_has_to_be_there_stops_the_start(
    host: Host, group: str, source: str, code: str, environment: dict[str, str], said: str, variable: str
) -> None:
    host.plugin("p", source, f"vllm.{group}")
    if not code.startswith("\n"):
        code = (
            "import torch, vllm.platforms\nfrom vllm.plugins import load_plugins_by_group\n"
            f"resolve = vllm.platforms.resolve_current_platform_cls_qualname\n{code}"
        )
    done = host.run(
        code.replace("except Exception as error:", "except KeyError as error:"),
        VPLUG_VLLM="1",
        **environment,
        **{variable: "p" if variable == "VPLUG_REQUIRE" else "1"},
    )
    left_out = said.startswith(("endpoint plugins", "it asks"))
    if variable == "VPLUG_STRICT" and left_out:  # that is no fault
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 1, done.stderr
    assert said in done.stderr
    assert "plugin `p` of acme-p 1.0" in done.stderr


def test_a_required_logits_processor_that_the_policy_keeps_out_stops_the_start(host: Host, tmp_path: Path) -> None:
    host.plugin("lp", "class register: ...\n", "vllm.logits_processors")
    policy = tmp_path / "vplug.toml"
    policy.write_text('deny = ["lp"]\n', "utf-8")
    code = "import torch, vllm.v1.sample.logits_processor as m\nprint(m._load_logitsprocs_plugins())"
    done = host.run(code, VPLUG_VLLM="1", VPLUG_POLICY=str(policy), VPLUG_REQUIRE="lp")
    assert done.returncode == 1
    assert "plugin `lp` of acme-lp 1.0, which VPLUG_REQUIRE names, may not load" in done.stderr


@pytest.mark.parametrize("error", ["LookupError", "RuntimeError", "ValueError", "RecursionError"])
def test_whatever_fails_of_ours_is_no_verdict(host: Host, error: str) -> None:
    host.plugin("good", "def register(): print('good')\n")
    code = f"""
        import torch, vllm.plugins
        from vplug_rs.vllm import selection
        def fault(*words): raise {error}("ours")
        selection.VllmLoader._found = fault
        vllm.plugins.load_general_plugins()
    """
    done = host.run(code, VPLUG_VLLM="1")
    assert ok(done) == "good\n"
    assert "vplug_rs failed in place of load_general_plugins, which answers itself" in done.stderr


def test_a_state_outlives_the_loader_that_saw_it(host: Host) -> None:
    host.plugin("broken", BROKEN)
    code = """
        import torch, vllm.plugins
        vllm.plugins.load_general_plugins()
        vllm.plugins.load_plugins_by_group("vllm.general_plugins")
        from vplug_rs.vllm.selection import rows
        print([(row.name, row.failure is not None) for row in rows()])
    """
    assert ok(host.run(code, VPLUG_VLLM="1")) == "[('broken', True)]\n"


def test_a_group_that_is_in_place_is_not_looked_for_again_and_one_that_failed_is(host: Host) -> None:
    code = """
        import torch, vllm.plugins
        from vplug_rs.vllm import selection
        looked, genuine = [], selection.VllmLoader._found
        def found(loader):
            looked.append(loader.group)
            return genuine(loader)
        selection.VllmLoader._found = found
        for _ in range(3):
            vllm.plugins.load_general_plugins()
        print(len(looked))
        vllm.plugins.plugins_loaded = False  # somebody wants it done again
        vllm.plugins.load_general_plugins()
        print(len(looked))
    """
    assert ok(host.plugin("good", "def register(): pass\n").run(code, VPLUG_VLLM="1")) == "1\n2\n"
    assert ok(host.plugin("broken", BROKEN).run(code, VPLUG_VLLM="1")) == "3\n4\n"


def test_what_is_expected_of_vllms_functions_is_what_its_release_has() -> None:
    nothing: Any = lambda: None  # noqa: E731
    expected = {
        "plugins": {
            "load_plugins_by_group": activation._takes_group,
            "load_general_plugins": nothing,
            "load_endpoint_plugins": activation._takes_tasks,
        },
        "platforms": {"resolve_current_platform_cls_qualname": nothing},
        "logits": {"_load_logitsprocs_plugins": nothing},
        "logits_v2": {"_load_v2_logitsprocs_plugins": nothing},
        "io_processors": {"get_io_processor": activation._takes_config},
        "endpoints": {"attach_endpoint_plugins": activation._takes_app},
        "prometheus": {"get_prometheus_registry": nothing},
    }
    for module, functions in expected.items():
        tree = ast.parse((vllm_source.modules() / f"{module}.py").read_text("utf-8"))
        found = {node.name: node.args for node in tree.body if isinstance(node, ast.FunctionDef)}
        for name, shape in functions.items():
            parameters = inspect.signature(shape).parameters.values()
            arguments = found[name]
            assert [one.arg for one in arguments.args] == [one.name for one in parameters], name
            assert len(arguments.defaults) == sum(one.default is not one.empty for one in parameters), name
            assert not (arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg), name


def test_a_table_that_only_denies_leaves_the_general_list_in_force_for_endpoints(host: Host, tmp_path: Path) -> None:
    policy = tmp_path / "vplug.toml"
    policy.write_text('allow = ["ep"]\n[groups."vllm.endpoint_plugins"]\ndeny = ["other"]\n', "utf-8")
    done = endpoint_host(host, "app.add('/v1/mine')").run(APP, VPLUG_VLLM="1", VPLUG_POLICY=str(policy))
    assert ok(done) == "attach\n['/v1/models', '/v1/mine'] [{}]\n"
