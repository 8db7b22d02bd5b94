"""What a plugin, an installation or a signal can do to the loader, and what comes of it."""

from __future__ import annotations

import zipfile

import pytest

from sites import build
from test_loader import GROUP, TOUCH, Bed, bed  # noqa: F401  # the fixture

FROZEN = """
    from dataclasses import dataclass
    @dataclass(frozen=True)
    class Frozen(Exception):
        code: int = 0
    raise Frozen(7)
"""
EXITING = """
    class Exiting(Exception):
        def __str__(self): raise SystemExit(9)
    raise Exiting
"""
UNBOUND = """
    class Proxy:
        @property
        def __class__(self): raise RuntimeError("not bound yet")
    run = Proxy()
"""
NAMELESS = """
    import types
    run = types.ModuleType("x")
    del run.__name__
"""


@pytest.mark.parametrize("kind", ["callable", "class", "module"])
def test_odd_exceptions_and_objects_are_records_and_the_others_load(bed: Bed, kind: str) -> None:  # noqa: F811
    (bed.plugin("frozen", FROZEN).plugin("exiting", EXITING).plugin("unbound", UNBOUND).plugin("nameless", NAMELESS))
    good = {"callable": "def run(): pass\n", "class": "class run: pass\n", "module": "import os as run\n"}[kind]
    (said,) = bed.plugin("good", good).run(f"""
        loader = PluginLoader(G, kind={kind!r})
        loaded = names(loader.load())
        say(loaded, {{p.name: p.failure.cause for p in loader.report().plugins if p.failure}})
    """)
    loaded, failures = said
    assert loaded == (["good", "nameless"] if kind == "module" else ["good"])
    assert failures.pop("frozen").startswith("Frozen: ")
    assert failures.pop("exiting") == "Exiting (its text cannot be shown)"
    assert failures.pop("unbound") == f"TypeError: Proxy is not {'callable' if kind == 'callable' else 'a ' + kind}"
    assert failures == ({} if kind == "module" else {"nameless": failures.get("nameless")})


def test_an_object_of_the_wrong_kind_is_looked_up_again(bed: Bed) -> None:  # noqa: F811
    bed.plugin("late", TOUCH + "run = None\n")
    first, second = bed.run("""
        loader = PluginLoader(G)
        say(names(loader.load()), names(loader.load()), loader.report().data["plugins"][0]["failure"]["attempts"])
        os.remove("touched.txt")
        import late_mod
        late_mod.run = lambda: 1
        say(names(loader.load()), os.path.exists("touched.txt"))
    """)
    assert first == [[], [], 2]
    assert second == [["late"], False]


def test_a_row_is_loading_only_while_it_is(bed: Bed) -> None:  # noqa: F811
    bed.plugin(
        "nested",
        """
        import vplug_rs
        inner = vplug_rs.PluginLoader("demo.plugins", policy=vplug_rs.Policy(["nested"]))
        inner.load()
        state = [p.state for p in inner.report().plugins]
        def run(): pass
    """,
    )
    bed.plugin("stopped", "import vplug_rs\nvplug_rs.PluginLoader('demo.plugins').load()\nraise KeyboardInterrupt\n")
    (said,) = bed.run("""
        loader = PluginLoader(G)
        try:
            loader.load()
        except KeyboardInterrupt:
            pass
        import nested_mod
        say(nested_mod.state, *[[p.state for p in one.report().plugins] for one in (nested_mod.inner, loader)])
    """)
    within, inner, outer = said
    assert within[0] == "loading"
    assert inner == ["loaded", "filtered"]
    assert outer == ["loaded", "found"]


def test_a_plugin_that_fails_still_tells_what_it_cost(bed: Bed) -> None:  # noqa: F811
    (bed.site / "torch.py").write_text(
        "class cuda:\n    on = False\n    is_initialized = staticmethod(lambda: cuda.on)\n", encoding="utf-8"
    )
    bed.plugin("heavy", "import time, wave, torch\ntorch.cuda.on = True\ntime.sleep(0.2)\nraise OSError\n")
    (said,) = bed.run("""
        import torch
        loader = PluginLoader(G)
        loader.load()
        row, = loader.report().data["plugins"]
        say(row["initialised_cuda"], "wave" in row["modules"], row["import_seconds"], str(loader.report()))
    """)
    cuda, wave, seconds, text = said
    assert cuda is True
    assert wave is True
    assert seconds >= 0.2
    assert "CUDA" in text
    assert any(cell.replace(".", "").isdigit() and float(cell) >= 200 for cell in text.split())


def test_a_hidden_copy_is_named_where_its_plugin_is_missed(bed: Bed) -> None:  # noqa: F811
    build(bed.site, {"first": {"acme.egg-info": {"PKG-INFO": "Name: acme\nVersion: 2.0\n"}}})
    bed.plugin("acme")
    (said,) = bed.run("""
        sys.path.insert(0, sys.path[0] + "/first")
        loader = PluginLoader(G, policy=Policy(allow=["acme"]))
        loader.load()
        try:
            loader.get("acme")
        except vplug_rs.PluginNotFoundError as error:
            say(seen[0], str(error), str(loader.report()))
    """)
    hidden = bed.site / "acme-1.0.dist-info"
    by = bed.site / "first" / "acme.egg-info"
    for text in said:
        assert f"{hidden} has it, but is hidden by {by}, which comes first on sys.path" in text


def test_a_denied_distribution_stays_out_whatever_blanks_stand_in_the_rule(bed: Bed) -> None:  # noqa: F811
    build(
        bed.site,
        {
            "alpha-1.0.dist-info": {
                "METADATA": "Name: beta-tools\nVersion: 1.0\n",
                "entry_points.txt": f"[{GROUP}]\nb = b_mod:run\n",
            },
            "b_mod.py": TOUCH + "def run(): pass\n",
        },
    )
    (said,) = bed.run(r"""
        rules = "dist:beta-tools", "!dist:beta-tools", "!\tdist:beta-tools", "!\u00a0dist:Beta_Tools", " dist:beta.*"
        say([names(PluginLoader(G, policy=Policy(deny=[rule])).load()) for rule in rules])
    """)
    assert said == [[[]] * 5]
    assert not (bed.folder / "touched.txt").exists()


def test_what_an_archive_offers_counts_as_installed_elsewhere(bed: Bed) -> None:  # noqa: F811
    archive = bed.folder / "more.zip"
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("zz-1.0.dist-info/METADATA", "Name: zz\nVersion: 1.0\n")
        stream.writestr("zz-1.0.dist-info/entry_points.txt", "[other]\nzplug = zz:run\n")
    (said,) = bed.plugin("good").run(f"""
        sys.path.append({str(archive)!r})
        rules = dict(allow=["good", "zplug"]), dict(groups={{"other": {{"allow": ["zplug"]}}}})
        say([names(PluginLoader(G, policy=Policy(strict=True, **rule)).load()) for rule in rules])
    """)
    assert said == [[["good"], ["good"]]]


def test_a_byte_that_is_no_utf8_keeps_nobody_out(bed: Bed) -> None:  # noqa: F811
    (said,) = bed.plugin("good").run("""
        import logging
        logging.getLogger("vllm.vplug_rs").addFilter(lambda record: seen.append(record.getMessage()))
        os.environb[b"VLLM_PLUGINS"] = b"good,\\xff"
        say(list(vplug_rs.load_plugins_by_group(G)), seen)
    """)
    assert said[0] == ["good"]
    assert "\\udcff" in said[1][0]


def test_a_host_without_a_readable_version_is_a_fault_of_the_policy(bed: Bed) -> None:  # noqa: F811
    (bed.folder / "vplug.toml").write_text('host = { name = "vllm", version = "nightly" }\n', encoding="utf-8")
    (said,) = bed.run("""
        for make in (lambda: Policy(host=("vllm", "nightly")), lambda: Policy.from_file("vplug.toml")):
            try:
                make()
            except vplug_rs.PolicyError as error:
                seen.append(str(error))
        say(seen)
    """)
    code, file = said[0]
    assert "nightly" in code
    assert "vplug.toml:1" in file


def test_a_reset_reaches_every_loader_of_the_group(bed: Bed) -> None:  # noqa: F811
    (said,) = bed.plugin("counted", "ran = []\ndef run(): ran.append(1); return len(ran)\n").run("""
        one, other = PluginLoader(G, call=True), PluginLoader(G, call=True)
        one.load(); other.load()
        one.reset()
        say(other.get("counted").result, [p.result for p in other.load()])
    """)
    assert said == [2, [2]]


@pytest.mark.parametrize("value", ["m_mod:run.", "m_mod:.run", "m_mod:run..__call__"])
def test_a_reference_is_read_as_importlib_reads_it(bed: Bed, value: str) -> None:  # noqa: F811
    (said,) = bed.plugin("m", value=value).run("""
        from importlib.metadata import entry_points
        point, = entry_points(group=G)
        say(PluginLoader(G).get("m").object == point.load())
    """)
    assert said == [True]


@pytest.mark.parametrize(
    "work",
    [
        "PluginLoader(G).load()",  # is in the plugin
        "time.sleep(0.2); PluginLoader(G).load()",  # waits for it
        "[PluginLoader('other.group').load() for _ in iter(int, 1)]",
        "[vplug_rs.entry_points(group=G) for _ in iter(int, 1)]",
        "[importlib.metadata.entry_points(group=G) for _ in iter(int, 1)]",
    ],
)
def test_daemon_threads_of_ours_let_the_process_end(bed: Bed, work: str) -> None:  # noqa: F811
    bed.plugin("hangs", "import time\nwhile True:\n    time.sleep(0.01)\n")
    done = bed.process(
        f"""
        import importlib.metadata
        vplug_rs.install()
        for work in (lambda: PluginLoader(G).load(), lambda: ({work})):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.5)
        print("ends", flush=True)
    """.replace("; ", ") or (")
    )
    assert (done.returncode, done.stdout) == (0, "ends\n"), done.stderr


def test_a_wait_inside_a_wait_is_seen_by_all_and_the_circle_is_told(bed: Bed) -> None:  # noqa: F811
    bed.plugin(
        "a",
        """
        import __main__, signal, threading, time
        from vplug_rs import PluginLoader
        signal.signal(signal.SIGALRM, lambda *_: __main__.quietly("c"))
        signal.setitimer(signal.ITIMER_REAL, 0.6)
        __main__.started.set()
        __main__.quietly("b")  # while it waits, the handler waits for c
        def run(): pass
    """,
    )
    bed.plugin("b", "import __main__, time\ntime.sleep(1.2)\n__main__.quietly('a')\ndef run(): pass\n")
    bed.plugin("c", "import time\ntime.sleep(3)\ndef run(): pass\n")
    (said,) = bed.run(
        """
        told, started = [], threading.Event()
        def quietly(name):
            try:
                PluginLoader(G, wait_limit=20).get(name)
            except Exception as error:
                told.append(type(error).__name__)
        others = [threading.Thread(target=quietly, args=(name,)) for name in "bc"]
        for other in others: other.start()
        outside = threading.Thread(target=lambda: started.wait() and time.sleep(1.5) or quietly("a"))
        outside.start()
        began = time.monotonic()
        quietly("a")
        for thread in (*others, outside): thread.join(30)
        say(told, time.monotonic() - began, [p.name for p in PluginLoader(G).load()])
        """,
        timeout=60,
    )
    told, seconds, loaded = said
    assert told == ["LoadCycleError"]
    assert seconds < 15
    assert loaded == ["a", "b", "c"]
