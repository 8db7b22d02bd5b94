"""The registry of models: real packages in fresh processes; what it looks at never runs."""

from __future__ import annotations

import ast
import importlib.machinery
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from interpreters import clean_environment, shared_import_root
from sites import Node, Tree, build, dist
from test_loader import Bed
from vllm_bed import VllmBed
from vplug_rs.groups import GENERAL

HEAD = """
from vplug_rs.interfaces import model_registry
from vplug_rs.interfaces.model_registry import *
def refused(arch, target, **more):
    try:
        register_model(arch, target, **more)
    except ModelRegistryError as error:
        say(type(error).__name__, str(error), error.hint)
    else:
        say("registered", *seen)
"""
FORBIDDEN = "raise SystemExit('this package was run')\n"
ACME: Tree = {
    "acme": {
        "__init__.py": FORBIDDEN,
        "model.py": FORBIDDEN + "class Acme: ...\ndef make(): ...\n",
        "broken.py": "class Acme:\ndef\n",
        "space": {"inner": {"deep.py": FORBIDDEN + "class Deep: ...\n"}},
    },
}


class Models:
    """A site with packages, and processes that register what is in them."""

    def __init__(self, folder: Path, *trees: Tree) -> None:
        self.bed = Bed(folder)
        self.site = self.bed.site
        for tree in trees or (ACME,):
            build(self.site, tree)

    def run(self, code: str, **more: Any) -> list[Any]:
        answers = self.bed.run(HEAD + code.replace("\n        ", "\n"), **more)
        text = re.sub(r"<string>:\d+", "<string>", repr(answers).replace(str(self.bed.folder), "T"))
        said: list[Any] = ast.literal_eval(text)
        return said

    def distribution(self, name: str, version: str, source: str) -> Models:
        """A distribution whose general plugin is `register` in its one module."""
        module = name.replace("-", "_")
        points = f"[{GENERAL}]\n{module} = {module}:register\n"
        build(self.site, dist(name, version, points, top_level_txt=f"{module}\n"))
        build(self.site, {f"{module}.py": source})
        return self


def register(arch: str, target: str, more: str = "") -> str:
    """The source of a module that registers a model in line 3."""
    return (
        "from vplug_rs.interfaces.model_registry import register_model\ndef register():\n"
        f"    register_model({arch!r}, {target!r}{more})\n"
    )


def test_neither_module_nor_package_is_imported_until_the_class_is_wanted(tmp_path: Path) -> None:
    models = Models(tmp_path, ACME, {"good": {"__init__.py": "", "model.py": "class Good: ...\n"}})
    said = models.run("""
        model = register_model("A", "acme.model:Acme")
        good = register_model("G", "good.model:Good")
        say(str(model.path), model.target, model.doubt, [name for name in sys.modules if name.startswith("good")])
        say(MODELS.load("G").__name__, MODELS.load("G").__module__, sorted(MODELS.get_supported_archs()))
        say([str(model) for model in MODELS.models()], seen)
    """)
    assert said == [
        ["T/site/acme/model.py", "acme.model:Acme", "", []],
        ["Good", "good.model", ["A", "G"]],
        [
            [
                "A = acme.model:Acme, registered by `<string>` (a script)",
                "G = good.model:Good, registered by `<string>` (a script)",
            ],
            [],
        ],
    ]


@pytest.mark.parametrize(
    ("arch", "target", "said"),
    [
        (
            "A",
            "acme.model.Acme",
            [
                "ModelReferenceError",
                "model `A` cannot be registered as `acme.model.Acme`: 0 colons, and one is wanted",
                'Part module and class with a colon: `"acme.model:Acme"`.',
            ],
        ),
        (
            "A",
            "acme:model:Acme",
            [
                "ModelReferenceError",
                "model `A` cannot be registered as `acme:model:Acme`: 2 colons, and one is wanted",
                'Write it as `"package.module:Class"`.',
            ],
        ),
        (
            "A",
            "acme.model: Acme",
            [
                "ModelReferenceError",
                "model `A` cannot be registered as `acme.model: Acme`: there are blanks in it",
                'vLLM strips nothing: `"acme.model:Acme"`.',
            ],
        ),
        (
            "A",
            ".model:Acme",
            [
                "ModelReferenceError",
                "model `A` cannot be registered as `.model:Acme`: it is relative",
                'Write it as `"package.module:Class"`.',
            ],
        ),
        (
            "A",
            "acme.model:Outer.Acme",
            [
                "ModelReferenceError",
                "model `A` cannot be registered as `acme.model:Outer.Acme`: `Outer.Acme` stands inside another class",
                "vLLM looks the name up in the module alone: put `Acme` at its top level.",
            ],
        ),
        (
            "A",
            "__main__:Acme",
            [
                "ModelReferenceError",
                (
                    "model `A` cannot be registered as `__main__:Acme`: each process has another `__main__`, so only "
                    "this one finds the class"
                ),
                "Put the class into a module of its own, which can be imported everywhere.",
            ],
        ),
        (
            "A",
            "amce.model:Acme",
            [
                "ModelReferenceError",
                "model `A` cannot be registered as `amce.model:Acme`: there is no module `amce`",
                "Install the distribution that has `amce` into this environment, or correct the name.",
            ],
        ),
        (
            "A",
            "acme.modle:Acme",
            [
                "ModelReferenceError",
                "model `A` cannot be registered as `acme.modle:Acme`: there is no module `acme.modle`",
                "Did you mean `acme.model`?",
            ],
        ),
        (
            "A",
            "acme.other:Acme",
            [
                "ModelReferenceError",
                "model `A` cannot be registered as `acme.other:Acme`: there is no module `acme.other`",
                "It was looked for in `T/site/acme`: correct the name.",
            ],
        ),
        (
            "A",
            "acme.model.deeper:Acme",
            [
                "ModelReferenceError",
                (
                    "model `A` cannot be registered as `acme.model.deeper:Acme`: `acme.model` is a module, so there is "
                    "no `acme.model.deeper` in it"
                ),
                "It was looked for in `T/site/acme/model.py`: correct the name.",
            ],
        ),
        (
            "A",
            "acme.space:Acme",
            [
                "ModelReferenceError",
                (
                    "model `A` cannot be registered as `acme.space:Acme`: `acme.space` is a folder without "
                    "`__init__.py`, so no class stands in it"
                ),
                "It was looked for in `T/site/acme/space`: correct the name.",
            ],
        ),
        (
            "A",
            "acme.model:Acmee",
            [
                "ModelReferenceError",
                (
                    "model `A` cannot be registered as `acme.model:Acmee`: `T/site/acme/model.py` defines no `Acmee` "
                    "at its top level"
                ),
                "Did you mean `acme.model:Acme`?",
            ],
        ),
        (
            "A",
            "acme.model:make",
            [
                "ModelReferenceError",
                (
                    "model `A` cannot be registered as `acme.model:make`: `make` in `T/site/acme/model.py:3` is a "
                    "function"
                ),
                "Name the class itself.",
            ],
        ),
        (
            "A",
            "acme.model:class",
            [
                "ModelReferenceError",
                "model `A` cannot be registered as `acme.model:class`: `class` is no name of a class",
                'Write it as `"package.module:Class"`.',
            ],
        ),
        (
            " A",
            "acme.model:Acme",
            [
                "ModelReferenceError",
                "the architecture ' A' is empty, or has blanks around it",
                "Give the name that `architectures` in the model's config.json has.",
            ],
        ),
    ],
)
def test_what_cannot_work_is_refused_at_once(tmp_path: Path, arch: str, target: str, said: list[str]) -> None:
    assert Models(tmp_path).run(f"refused({arch!r}, {target!r}); say(*MODELS.models())") == [said, []]


def test_a_module_that_is_no_python_is_refused_with_its_line(tmp_path: Path) -> None:
    ((kind, message, hint),) = Models(tmp_path).run("refused('A', 'acme.broken:Acme')")
    assert (kind, hint) == ("ModelReferenceError", "Mend the module.")
    assert "`T/site/acme/broken.py:2` is no valid Python: " in message


def test_what_is_no_text_is_refused_with_a_type_error(tmp_path: Path) -> None:
    said = Models(tmp_path).run("""
        from fractions import Fraction
        refused("A", Fraction)
        refused("A", 7)
        refused(["A"], "acme.model:Acme")
        say(issubclass(ModelKindError, TypeError), issubclass(ModelReferenceError, ValueError))
    """)
    assert [row[0] for row in said[:3]] == ["ModelKindError"] * 3
    assert said[0][2] == 'Name it: `"fractions:Fraction"`.'
    assert said[3] == [True, True]


@pytest.mark.parametrize(
    "source",
    [
        "if True:\n    class M: ...\n",
        "if TYPE_CHECKING:\n    import absent\nelse:\n    class M: ...\n",
        "try:\n    import absent\nexcept ImportError:\n    class M: ...\n",
        "from absent import Other as M\n",
        "M: object = make(int)\n",
        "for M in (int,): ...\n",
        "@wrapped\ndef M(): ...\n",
        "def fill():\n    global M\n    M = int\nfill()\n",
        "# coding: latin-1\ncaf\xe9 = 1\nclass M: ...\n".encode("latin-1"),
        "bad = '\\d'\nclass M: ...\n",
    ],
)
def test_a_name_counts_however_the_top_level_binds_it(tmp_path: Path, source: str | bytes) -> None:
    models = Models(tmp_path, {"mod.py": source})
    assert models.run("refused('A', 'mod:M')") == [["registered"]]


@pytest.mark.parametrize(
    "source",
    [
        "def make():\n    class M: ...\n",
        "class Outer:\n    class M: ...\n",
        "text = 'class M: ...'\n",
        "use(M)\n",
        "make = lambda: (M := 1)\n",
        "import typing\nif typing.TYPE_CHECKING:\n    from absent import M\n",
    ],
)
def test_a_name_that_is_bound_elsewhere_does_not_count(tmp_path: Path, source: str) -> None:
    ((kind, message, _),) = Models(tmp_path, {"mod.py": source}).run("refused('A', 'mod:M')")
    assert kind == "ModelReferenceError" and "`T/site/mod.py` defines no `M` at its top level" in message


SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
NOT_KNOWN = "so whether it defines `M` is not known"


@pytest.mark.parametrize(
    ("tree", "target", "doubt"),
    [
        ({"m.py": "from os import *\n"}, "m:M", f"`T/site/m.py` has `from os import *`, {NOT_KNOWN}"),
        (
            {"m.py": "def __getattr__(name): ...\n"},
            "m:M",
            f"`T/site/m.py` makes names when they are asked for (`__getattr__`), {NOT_KNOWN}",
        ),
        (
            {"m.py": "def fill(): exec('class M: ...', globals())\nfill()\n"},
            "m:M",
            f"`T/site/m.py` makes names by `globals`, {NOT_KNOWN}",
        ),
        ({"m.py": "globals().update(M=int)\n"}, "m:M", f"`T/site/m.py` makes names by `globals`, {NOT_KNOWN}"),
        (
            {f"m{SUFFIX}": b"\x7fELF"},
            "m:M",
            f"`T/site/m{SUFFIX}` has no source that can be read, {NOT_KNOWN}",
        ),
        (
            {"m.py": "x = " + "(" * 50 + "-" * 200_000 + "1" + ")" * 50},
            "m:M",
            f"`T/site/m.py` is nested too deeply to be read, {NOT_KNOWN}",
        ),
        (
            {"p": {"__init__.py": "__path__ = ['elsewhere']\n"}},
            "p.m:M",
            "`p` decides at its import what `p.m` is",
        ),
    ],
)
def test_what_cannot_be_told_is_registered_with_a_warning(
    tmp_path: Path, tree: dict[str, Node], target: str, doubt: str
) -> None:
    warning = f"PluginWarning: model `A`, registered by `<string>` (a script): {doubt}"
    said = Models(tmp_path, tree).run(f"refused('A', {target!r}); say(MODELS.models()[0].doubt)")
    assert said == [["registered", warning], [doubt]]


def test_it_finds_what_an_import_would_find(tmp_path: Path) -> None:
    """In namespace packages, archives, by finders of editable installs, and where a loaded package says."""
    grown = {
        "grown": {"__init__.py": "__path__.append(__path__[0] + '_more')\n"},
        "grown_more": {"m.py": "class M: 0\n"},
    }
    models = Models(tmp_path, ACME, grown, {"out": {"m.py": FORBIDDEN + "class M: ...\n"}})
    with zipfile.ZipFile(models.site / "packed.zip", "w") as archive:
        archive.writestr("packed/__init__.py", FORBIDDEN)
        archive.writestr("packed/m.py", FORBIDDEN + "class M: ...\n")
    said = models.run(f"""
        import importlib.util
        sys.path.append({str(models.site / "packed.zip")!r})
        class Editable:
            @classmethod
            def find_spec(cls, name, path=None, target=None):
                if name == "edited":
                    return importlib.util.spec_from_file_location(name, {str(models.site / "out" / "m.py")!r})
        sys.meta_path.append(Editable)
        places = {{"name": [], "name.space": [{str(models.site / "out")!r}]}}
        class Places:  # as setuptools has it for namespaces: an entry of the path, asked by whole names
            @classmethod
            def hook(cls, path):
                if path == "placeholder": return cls
                raise ImportError
            @classmethod
            def find_spec(cls, name, target=None):
                if name in places:
                    spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
                    spec.submodule_search_locations = [*places[name], "placeholder"]
                    return spec
        sys.path_hooks.append(Places.hook)
        sys.path.append("placeholder")
        for target in ("acme.space.inner.deep:Deep", "packed.m:M", "edited:M", "name.space.m:M"):
            say(register_model(target, target).path)
        import grown
        say(register_model("G", "grown.m:M").path, seen)
    """)
    assert said == [
        ["T/site/acme/space/inner/deep.py"],
        ["T/site/packed.zip/packed/m.py"],
        ["T/site/out/m.py"],
        ["T/site/out/m.py"],
        ["T/site/grown_more/m.py", []],
    ]


def test_a_finder_that_fails_is_told_and_no_error(tmp_path: Path) -> None:
    ((doubt,),) = Models(tmp_path).run("""
        class Finder:
            def __repr__(self): return "<my finder>"
            def find_spec(self, name, path=None, target=None): raise RuntimeError("no")
        sys.meta_path.append(Finder())
        say(register_model("A", "absent:M").doubt)
    """)
    assert doubt == "<my finder> failed when it was asked for `absent`: RuntimeError: no"


def test_the_same_again_changes_nothing_whichever_thread_comes_first(tmp_path: Path) -> None:
    said = Models(tmp_path).run("""
        gate = threading.Barrier(8)
        got = []
        def work():
            gate.wait()
            got.append(register_model("A", "acme.model:Acme"))
        threads = [threading.Thread(target=work) for _ in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        say(len(got), len({id(one) for one in got}), len(MODELS.models()))
        pid = os.fork()
        if not pid:
            say(register_model("A", "acme.model:Acme") is got[0]); os._exit(0)
        os.waitpid(pid, 0)
    """)
    assert said == [[8, 1, 1], [True]]


def test_of_two_that_differ_the_error_names_both(tmp_path: Path) -> None:
    models = Models(tmp_path)
    build(models.site, {"acme": {"second.py": "class Acme: ...\n"}})
    models.distribution("acme-one", "1.4", register("A", "acme.model:Acme"))
    models.distribution("acme-two", "0.2", register("A", "acme.second:Acme"))
    said = models.run("""
        import acme_one, acme_two
        acme_one.register(); acme_one.register()
        try:
            acme_two.register()
        except ModelConflictError as error:
            say(str(error), *error.owners); say(error.hint)
        say(str(MODELS.models()[0]))
        refused("A", "acme.second:Acme", owner="acme-three")
    """)
    one, two = "acme-one 1.4 (`T/site/acme_one.py:3`)", "acme-two 0.2 (`T/site/acme_two.py:3`)"
    text = "model `A` is registered twice: as `acme.model:Acme` by {}, and as `acme.second:Acme` by {}"
    assert said[:3] == [
        [text.format(one, two), one, two],
        ["Uninstall one of both, or let the one that is meant say `replace=True`."],
        [f"A = acme.model:Acme, registered by {one}"],
    ]
    assert said[3][1] == text.format(one, "acme-three (`<string>`)")


@pytest.mark.parametrize("order", ["plain, meant", "meant, plain"])
def test_the_one_that_says_so_counts_in_any_order_and_again(tmp_path: Path, order: str) -> None:
    models = Models(tmp_path)
    build(models.site, {"acme": {"second.py": "class Acme: ...\n", "third.py": "class Acme: ...\n"}})
    said = models.run(f"""
        def plain(): return register_model("A", "acme.model:Acme").target
        def meant(): return register_model("A", "acme.second:Acme", replace=True).target
        for one in ({order}, {order}): one()
        (model,) = MODELS.models()
        say(model.target, [one.target for one in model.aside], model.replace)
        refused("A", "acme.third:Acme", replace=True)
        refused("A", "acme.model:Acme", replace=True)
    """)
    assert said[0] == ["acme.second:Acme", ["acme.model:Acme"], True]
    for row in said[1:]:
        assert row[0] == "ModelConflictError" and row[1].endswith("both say `replace=True`")
        assert row[2] == "Uninstall one of both."


# what of vLLM's registry is used; tests/real_vllm asks the real one
STAND_IN = """
class _Lazy:
    def __init__(self, module_name, class_name): self.module_name, self.class_name = module_name, class_name
class _Registry:
    def __init__(self): self.models, self.calls = {"Llama": _Lazy("vllm.llama", "Llama")}, []
    def get_supported_archs(self): return self.models.keys()
    def register_model(self, arch, target):
        self.calls.append(arch)
        self.models[arch] = _Lazy(*target.split(":"))
ModelRegistry = _Registry()
"""
VLLM: Tree = {
    "vllm": {
        "__init__.py": "",
        "model_executor": {"__init__.py": "", "models": {"__init__.py": "", "registry.py": STAND_IN}},
    }
}


def test_in_front_of_vllm_each_model_is_registered_there_once(tmp_path: Path) -> None:
    said = Models(tmp_path, ACME, VLLM).run("""
        register_model("Early", "acme.model:Acme")
        say("vllm" in sys.modules, sorted(MODELS.get_supported_archs()))
        import vllm
        say(diagnose("Early").code)
        register_model("Late", "acme.model:Acme"); register_model("Late", "acme.model:Acme")
        registry = sys.modules["vllm.model_executor.models.registry"].ModelRegistry
        say(registry.calls, sorted(MODELS.get_supported_archs()))
        refused("Llama", "acme.model:Acme")
        register_model("Llama", "acme.model:Acme", replace=True)
        say(registry.models["Llama"].module_name, registry.calls)
        registry.register_model("Late", "other:Class")
        say(diagnose("Late").code, diagnose("Late").is_well, str(diagnose("Llama")).partition(":")[0])
    """)
    assert said == [
        [False, ["Early"]],
        ["script-only"],
        [["Late", "Early"], ["Early", "Late", "Llama"]],
        [
            "ModelConflictError",
            (
                "model `Llama` is known to vLLM as `vllm.llama:Llama`, of its own or from somebody who registered it "
                "there directly, and is registered as `acme.model:Acme` by `<string>` (a script)"
            ),
            "Say `replace=True` if it is meant to take that place.",
        ],
        ["acme.model", ["Late", "Early", "Llama"]],
        ["overwritten", False, "script-only"],
    ]


def test_forward_imports_vllm_and_hands_over(tmp_path: Path) -> None:
    said = Models(tmp_path, ACME, VLLM).run("""
        register_model("A", "acme.model:Acme")
        register_model("Llama", "acme.model:Acme")
        try:
            forward()
        except ModelConflictError as error:
            say(error.owners[0])
        say(sys.modules["vllm.model_executor.models.registry"].ModelRegistry.calls, [m.arch for m in MODELS.models()])
    """)
    assert said == [["vLLM's registry (`vllm.llama:Llama`)"], [["A"], ["A"]]]


def test_without_vllm_forward_says_what_is_missing(tmp_path: Path) -> None:
    ((message, hint),) = Models(tmp_path).run("""
        try:
            forward()
        except ModelRegistryError as error:
            say(str(error), error.hint)
    """)
    assert message.startswith(
        "vLLM's registry of models cannot be imported: ModuleNotFoundError: No module named 'vllm"
    )
    assert hint == "See what `python -c 'import vllm.model_executor.models.registry'` says."


def test_what_a_general_plugin_registers_is_well_and_what_a_script_does_is_not(tmp_path: Path) -> None:
    models = Models(tmp_path)
    models.distribution("acme-one", "1.4", register("Plugin", "acme.model:Acme"))
    said = models.run("""
        register_model("Script", "acme.model:Acme")
        vplug_rs.load_general_plugins()
        for arch in ("Plugin", "Script"):
            say(diagnose(arch).code, diagnose(arch).is_well, diagnose(arch).message)
        import acme_one
        MODELS._models.clear()
        acme_one.register()
        say(diagnose("Plugin").code)
        PluginLoader("vllm.general_plugins", call=True).reset()
        PluginLoader("vllm.general_plugins", call=True).load()
        say(diagnose("Plugin").code)
    """)
    by = "acme-one 1.4 (`T/site/acme_one.py:3`)"
    assert said[0] == ["registered", True, f"Plugin = acme.model:Acme, registered by {by}"]
    assert said[1][:2] == ["script-only", False]
    assert said[1][2] == (
        "Script = acme.model:Acme, registered by `<string>` (a script); no plugin did so. vLLM loads models in "
        "processes of its own (engine core, workers), and only plugins run in all of them: where that call does "
        'not, `Script` is "not supported for now"'
    )
    # a plugin that makes the same call later mends it
    assert said[2:] == [["script-only"], ["registered"]]


def test_the_owner_is_the_distribution_of_the_plugin_even_if_a_helper_makes_the_call(tmp_path: Path) -> None:
    models = Models(tmp_path)
    build(models.site, {"shared_helper.py": register("A", "acme.model:Acme")})
    models.distribution("acme-one", "1.4", "import shared_helper\ndef register():\n    shared_helper.register()\n")
    said = models.run("vplug_rs.load_general_plugins(); say(str(MODELS.models()[0].origin))")
    assert said == [["acme-one 1.4 (`T/site/shared_helper.py:3`)"]]


SCRIPT = """
import multiprocessing, sys
from vplug_rs.interfaces.model_registry import diagnose, register_model

def child():
    found = diagnose("Lost")
    print(found.code, found.message.replace("(%d)" % multiprocessing.current_process().pid, "(N)"))
    print(found.snippet)

if __name__ == "__main__":
    register_model("Lost", "acme.model:Acme")
    print(diagnose("Lost").code, flush=True)
    process = multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""


def test_in_a_spawned_process_the_lines_that_were_not_run_are_named_and_the_snippet_mends_it(tmp_path: Path) -> None:
    models = Models(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    path = f"{models.site}:{shared_import_root()}"
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=clean_environment(PYTHONPATH=path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second, snippet = done.stdout.split("\n", 2)
    assert first == "script-only"
    assert second == (
        "script-only nobody has registered `Lost` in this process (N); "
        f"`{tmp_path / 'script.py'}:11` has a call that does, but this process has not run it: only the one that runs "
        "the script does"
    )
    # what the snippet says, installed
    project, name, source = re.split(r"^# (\S+)\n", snippet, flags=re.MULTILINE)[2:]
    (point,) = re.findall(r'^(\w+) = "(.*)"', project, flags=re.MULTILINE)
    assert f'[project.entry-points."{GENERAL}"]' in project
    build(models.site, dist("mended", "1.0", f"[{GENERAL}]\n{point[0]} = {point[1]}\n"))
    build(models.site, {name: source})
    said = models.run("vplug_rs.load_general_plugins(); say(diagnose('Lost').code, str(MODELS.models()[0].origin))")
    assert said == [["registered", f"mended 1.0 (`T/site/{name}:4`)"]]


def test_an_unknown_architecture_tells_near_names_and_plugins_that_were_kept_out(tmp_path: Path) -> None:
    models = Models(tmp_path)
    models.distribution("acme-one", "1.4", register("AcmeForCausalLM", "acme.model:Acme"))
    code = """
        register_model("AcmeForCausalLMs", "acme.model:Acme")
        found = diagnose("AcmeForCausalLM")
        say(found.code, found.message.partition("; ")[2], found.hint.partition("? ")[0])
        try:
            MODELS.load("AcmeForCausalLM")
        except ModelNotFoundError as error:
            say(str(error) == found.message, isinstance(error, KeyError))
    """
    (code, told, hint), loaded = models.run(code, environment={"VLLM_PLUGINS": "other"})
    assert (code, hint, loaded) == ("unknown", "Did you mean `AcmeForCausalLMs`", [True, True])
    assert "plugin `acme_one` of acme-one 1.4 may not load: it is not on the allowlist in VLLM_PLUGINS" in told


@pytest.mark.parametrize(
    ("first", "cause"),
    [
        ("import absent_thing", "ModuleNotFoundError: No module named 'absent_thing'"),
        ("raise SystemExit('no GPU')", "SystemExit: no GPU"),
    ],
)
def test_a_class_that_cannot_be_imported_after_all_is_a_typed_error(tmp_path: Path, first: str, cause: str) -> None:
    models = Models(tmp_path, {"mod.py": f"{first}\nclass M: ...\n"})
    ((message, hint),) = models.run("""
        register_model("A", "mod:M")
        try:
            MODELS.load("A")
        except ModelLoadError as error:
            say(str(error), error.hint)
    """)
    assert message == (f"model A = mod:M, registered by `<string>` (a script), cannot be loaded: {cause}")
    assert hint == "See what `python -c 'import mod'` says."


def test_neither_the_package_nor_the_other_interfaces_load_it(tmp_path: Path) -> None:
    code = "import vplug_rs.interfaces.stat_logger; say([m for m in sys.modules if 'model' in m])"
    assert VllmBed(tmp_path, GENERAL).run(code) == [[[]]]
    said = Models(build(tmp_path / "other", {})).run("say([m for m in sys.modules if m in ('torch', 'vllm', 'numpy')])")
    assert said == [[[]]]
