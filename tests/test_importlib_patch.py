"""`install()` and its undo: what they touch, when they take effect, and that nothing is left of them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from interpreters import each_minor
from strict_support import backport, bench, plain_site, write

pytestmark = pytest.mark.every_python

# Defined in the children: everything that `install()` could change in a module, by identity.
STATE = """
import sys, types
def state(module):
    found = {"meta_path": list(map(id, sys.meta_path)), "names": {k: id(v) for k, v in vars(module).items()}}
    def code(name, value):
        value = getattr(value, "fget", None) or getattr(value, "__func__", value)
        while isinstance(value, types.FunctionType):
            found["code " + name] = id(value.__code__), id(value.__defaults__), id(value.__closure__)
            value = getattr(value, "__wrapped__", None)
    for key, value in list(vars(module).items()):
        code(key, value)
        if isinstance(value, type) and value.__module__ == module.__name__:
            found["class " + key] = {k: id(v) for k, v in vars(value).items() if k != "_abc_impl"}
            for k, v in vars(value).items():
                code(key + "." + k, v)
    return found
"""


@each_minor()
def test_install_imports_neither_module(minor: int, tmp_path: Path) -> None:
    asked = bench(minor, tmp_path)
    script = """
        import sys
        heavy = {"re", "typing", "pathlib", "email", "zipfile", "dataclasses", "logging", "inspect", "csv", "json",
                 "tempfile", "importlib.metadata", "importlib_metadata", "importlib", "__future__", "warnings"}
        print(sorted(heavy & set(sys.modules)))
    """
    assert asked.answer(script, installed=True) == asked.answer(script, installed=False)


@each_minor()
def test_a_program_that_never_asks_loads_four_small_modules(minor: int, tmp_path: Path) -> None:
    script = """
        import sys
        before = set(sys.modules)
        import vplug_rs; vplug_rs.install()
        print(*sorted(set(sys.modules) - before))
    """
    loaded = bench(minor, tmp_path).answer(script, installed=False).split()
    ours = ["", "._strict", "._strict._hook", ".importlib_patch"]
    # without `site`, `os` and what it imports are new, too
    with_os = {"_collections_abc", "_stat", "genericpath", "os", "os.path", "posixpath", "stat"}
    assert [name for name in loaded if name not in with_os] == [f"vplug_rs{name}" for name in ours]


@each_minor()
def test_where_it_is_not_supported_it_changes_nothing(minor: int, tmp_path: Path) -> None:
    script = """
        import sys, vplug_rs.importlib_patch as patch
        patch._SUPPORTED = False
        before = list(sys.meta_path)
        undo = patch.install()
        import importlib.metadata
        print(before == sys.meta_path, "vplug_rs._strict._patch" in sys.modules)
        undo()
        print(before == sys.meta_path)
    """
    assert bench(minor, tmp_path).answer(script, installed=False).split() == ["True", "False", "True"]


@each_minor()
@pytest.mark.parametrize("switch", ["default", "error"])
def test_a_failure_of_ours_warns_and_the_import_goes_on(minor: int, switch: str, tmp_path: Path) -> None:
    script = """
        import sys, warnings, vplug_rs.importlib_patch as patch
        warnings.simplefilter(SWITCH)
        def fail(module, name):
            raise OSError("no")
        patch._installation.patch = fail
        seen = []
        warnings.showwarning = lambda message, *rest: seen.append(str(message))
        undo = patch.install()
        import importlib.metadata
        print("imported", seen)
    """
    said = bench(minor, tmp_path).answer(script.replace("SWITCH", repr(switch)), installed=False)
    cause = "vplug_rs.install() cannot accelerate importlib.metadata, which answers for itself: OSError: no"
    assert said.strip() == f"imported {[cause] if switch == 'default' else []}"


@each_minor()
@pytest.mark.parametrize("early", [True, False], ids=["imported before", "imported after"])
def test_undo_restores_everything(minor: int, early: bool, tmp_path: Path) -> None:
    asked = bench(minor, tmp_path)
    imports = "import importlib.metadata as m\n"
    script = (
        STATE
        + ("finders = list(sys.meta_path)\n" + (imports + "before = state(m)\n" if early else ""))
        + "import vplug_rs\nundo = vplug_rs.install()\n"
        + imports
        + "during = state(m)\nm.entry_points(); list(m.distributions()); m.version('pkg0')\n"
        + "undo(); undo()\nafter = state(m)\nassert sys.meta_path == finders\n"
        + ("assert after == before\n" if early else "")
        + "print(sum(during[k] != after[k] for k in after if k.startswith('code')), during['names'] == after['names'],"
        + " all(during[k] == after[k] for k in after if k.startswith('class')),"
        + " [k for k in after if 'vplug' in repr(vars(m).get(k))])"
    )
    script = "import sys; sys.path.insert(0, sys.argv[1])\n" + script
    changed, *rest = asked.answer(script, str(plain_site(tmp_path / "site")), installed=False).split(" ", 1)
    assert int(changed) >= 12, "the codes of a dozen functions, or nothing was installed"
    assert rest == ["True True []\n"]


@each_minor()
def test_a_traceback_has_two_more_frames_for_each_replaced_function(minor: int, tmp_path: Path) -> None:
    script = """
        import importlib.metadata, traceback
        try:
            importlib.metadata.version("absent-everywhere")
        except importlib.metadata.PackageNotFoundError as error:
            print(len(traceback.extract_tb(error.__traceback__)))
    """
    asked = bench(minor, tmp_path)
    without, within = (int(asked.answer(script, installed=installed)) for installed in (False, True))
    assert within - without == 2 * 2, "version() and Distribution.from_name()"


@each_minor()
def test_nested_installs_are_counted(minor: int, tmp_path: Path) -> None:
    script = """
        import sys, vplug_rs, importlib.metadata as m
        plain = m.version.__code__
        first, second = vplug_rs.install(), vplug_rs.install()
        ours = m.version.__code__
        def seen(): return m.version.__code__ is plain, sum("vplug" in type(f).__module__ for f in sys.meta_path)
        print(ours is not plain, seen()); first(); first(); print(seen()); second(); print(seen())
        third = vplug_rs.install(); print(seen()); third(); print(seen())
    """
    expected = "True (False, 1)\n(False, 1)\n(True, 0)\n(False, 1)\n(True, 0)\n"
    assert bench(minor, tmp_path).answer(script, installed=False) == expected


@each_minor()
def test_names_taken_earlier_keep_identity_signature_and_source(minor: int, tmp_path: Path) -> None:
    script = """
        import inspect, importlib.metadata as m
        from importlib.metadata import entry_points, version, packages_distributions
        for f in (entry_points, version, packages_distributions, m.FastPath.search, m.Distribution.from_name,
                  m.PathDistribution._normalized_name.fget, m.Distribution.files.fget):
            print(f.__name__, f.__qualname__, f.__module__, inspect.signature(f), f.__doc__, f.__defaults__,
                  inspect.getsource(f), f.__code__.co_filename == m.__file__)
        print(type(m.__loader__), vars(m.__loader__), m.__spec__.loader is m.__loader__)
        print(m.__spec__.origin == m.__file__, sorted(vars(m)))
    """
    assert "Get the version string" in bench(minor, tmp_path).same(script)


@each_minor()
def test_reimported_reloaded_and_lazy_modules_are_included(minor: int, tmp_path: Path) -> None:
    script = """
        import sys, importlib, importlib.util, vplug_rs
        def ours(module): return "_unique" not in module.entry_points.__code__.co_names
        undo = vplug_rs.install()
        import importlib.metadata as first
        del sys.modules["importlib.metadata"]
        import importlib.metadata as second
        print(first is not second, ours(first), ours(second), ours(importlib.reload(second)))
        del sys.modules["importlib.metadata"]
        spec = importlib.util.find_spec("importlib.metadata")
        spec.loader = importlib.util.LazyLoader(spec.loader)
        lazy = importlib.util.module_from_spec(spec)
        sys.modules["importlib.metadata"] = lazy
        spec.loader.exec_module(lazy)
        print(type(lazy).__name__, ours(lazy), type(lazy).__name__)
        undo(); print(ours(first), ours(second), ours(lazy))
        del sys.modules["importlib.metadata"]
        spec = importlib.util.find_spec("importlib.metadata")
        spec.loader = importlib.util.LazyLoader(spec.loader)
        lazy = importlib.util.module_from_spec(spec)
        sys.modules["importlib.metadata"] = lazy
        spec.loader.exec_module(lazy)
        vplug_rs.install()
        print(type(lazy).__name__, ours(lazy))
    """
    expected = "True True True True\n_LazyModule True module\nFalse False False\n_LazyModule True\n"
    assert bench(minor, tmp_path).answer(script, installed=False) == expected


@each_minor()
def test_a_module_that_only_bears_the_name_is_left_alone(minor: int, tmp_path: Path) -> None:
    namesake = write(
        tmp_path / "namesake",
        {
            "importlib_metadata.py": "from importlib.metadata import *\nfrom importlib.metadata import EntryPoint\n"
            "def entry_points(**params): return 'mine'\nclass FastPath:\n    def search(self, name): return 'mine'\n"
        },
    )
    script = """
        import sys; sys.path.insert(0, sys.argv[1])
        import importlib_metadata as m
        print(m.entry_points(group="x"), m.FastPath().search("x"), m.entry_points.__code__.co_names)
        print(vars(m.__loader__))
        sys.modules["importlib.metadata"] = type(sys)("importlib.metadata")
        import importlib.metadata
        print(vars(importlib.metadata)["__name__"], len(vars(importlib.metadata)))
    """
    assert bench(minor, tmp_path).same(script, str(namesake)).startswith("mine mine ()")


@each_minor()
def test_a_module_whose_execution_fails_is_no_matter(minor: int, tmp_path: Path) -> None:
    broken = write(tmp_path / "broken", {"importlib_metadata.py": "raise RuntimeError('no')\n"})
    script = """
        import sys; sys.path.insert(0, sys.argv[1])
        for _ in range(2):
            try:
                import importlib_metadata
            except RuntimeError as error:
                print(error, "importlib_metadata" in sys.modules)
    """
    assert bench(minor, tmp_path).same(script, str(broken)) == "no False\nno False\n"


@each_minor()
def test_threads_may_install_undo_and_ask_at_once(minor: int, tmp_path: Path) -> None:
    script = """
        import sys, threading; sys.path.insert(0, sys.argv[1]); sys.setswitchinterval(1e-5)
        import vplug_rs
        from importlib.metadata import distributions, entry_points, version
        right = [p.name for p in entry_points(group="demo.plugins")]
        wrong, gate = [], threading.Barrier(8)
        def work(number):
            gate.wait()
            for _ in range(40):
                undo = vplug_rs.install()
                got = [p.name for p in entry_points(group="demo.plugins")], version("pkg1"), len(list(distributions()))
                if got != (right, "1.1", len(right)): wrong.append(got)
                undo()
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for t in threads: t.start()
        for t in threads: t.join(60)
        import importlib.metadata as m
        print(wrong[:1], len(right), "_unique" in m.entry_points.__code__.co_names,
              [f for f in sys.meta_path if "vplug" in type(f).__module__])
    """
    site = str(plain_site(tmp_path / "site", 5))
    assert bench(minor, tmp_path).answer(script, site, installed=False) == "[] 5 True []\n"


@each_minor()
def test_a_forked_child_works_even_if_the_lock_was_held(minor: int, tmp_path: Path) -> None:
    script = """
        import os, sys, threading, warnings; sys.path.insert(0, sys.argv[1]); warnings.simplefilter("ignore")
        import vplug_rs, vplug_rs.importlib_patch as patch
        undo = vplug_rs.install()
        import importlib.metadata as m
        before = [p.name for p in m.entry_points()] if sys.version_info > (3, 12) else m.entry_points()
        held, done = threading.Event(), threading.Event()
        def hold():
            with patch._installation.lock:
                held.set(); done.wait(30)
        thread = threading.Thread(target=hold); thread.start(); held.wait()
        child = os.fork()
        if not child:
            after = [p.name for p in m.entry_points()] if sys.version_info > (3, 12) else m.entry_points()
            vplug_rs.install()(); undo()
            os._exit(0 if after == before and "_unique" in m.entry_points.__code__.co_names else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])); done.set(); thread.join()
    """
    site = str(plain_site(tmp_path / "site"))
    assert bench(minor, tmp_path).answer(script, site, installed=False) == "0\n"


@each_minor()
def test_installed_while_another_thread_imports(minor: int, tmp_path: Path) -> None:
    script = """
        import sys, threading; sys.path.insert(0, sys.argv[1]); sys.setswitchinterval(1e-6)
        import vplug_rs
        def importing():
            import importlib.metadata
        thread = threading.Thread(target=importing); thread.start()
        while "importlib.metadata" not in sys.modules and thread.is_alive(): pass
        vplug_rs.install(); thread.join()
        import importlib.metadata as m
        print(m.version("pkg1"), "_unique" in m.entry_points.__code__.co_names)
    """
    site = str(plain_site(tmp_path / "site"))
    assert bench(minor, tmp_path).answer(script, site, installed=False) == "1.1 False\n"


ORDERS = list(itertools.permutations(("importlib.metadata", "importlib_metadata", "vplug_rs")))


@each_minor()
@pytest.mark.parametrize("order", ORDERS, ids=["-".join(order) for order in ORDERS])
def test_xa14_beside_the_two_other_libraries(minor: int, order: tuple[str, ...], tmp_path: Path) -> None:
    asked = bench(minor, tmp_path)
    backport(tmp_path / "more")
    script = f"""
        import sys; sys.path[:0] = sys.argv[1:]
        for name in {order!r}:
            module = __import__(name)
            if name == "vplug_rs": undo = module.install()
        import importlib.metadata as standard, importlib_metadata as backport
        import vplug_rs.metadata as own
        for m in (standard, backport, own, standard):
            with __import__("warnings").catch_warnings():
                __import__("warnings").simplefilter("ignore")
                print(sorted(p.name for p in m.entry_points(group="demo.plugins")),
                      sorted(d.metadata["Name"] for d in m.distributions(path=[sys.argv[1]])),
                      sorted(m.packages_distributions().items()), m.version("pkg1"))
    """
    printed = asked.answer(script, str(plain_site(tmp_path / "site")), str(tmp_path / "more"), installed=False)
    names = ["pkg0", "pkg1", "pkg2"]
    line = f"{names} {names} {[(name, [name]) for name in names]} 1.1\n"
    assert printed == line * 4
