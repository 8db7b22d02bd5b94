"""After `install()` a long-lived process answers as a fresh interpreter does, whatever was changed and however quietly.

The standard itself is staler here: it keys listings by the folder's mtime. docs/compatibility.md names the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from interpreters import each_minor
from strict_support import bench, plain_site

ASK = """
import importlib.metadata as m, sys
def ask():
    def name(d): return str(d._path)
    print([(p.name, p.value, p.group, name(p.dist)) for p in list(m.entry_points(group="demo.plugins"))],
          list(map(name, m.distributions())), list(m.packages_distributions().items()),
          [(d.name, d.version, d.requires, len(d.files or ())) for d in m.distributions()],
          m.version("pkg0") if list(m.distributions(name="pkg0")) else None)
"""
STEPS = """
import contextlib, io, os, pathlib, shutil, subprocess, sys
site = pathlib.Path(sys.argv[1])
info = site / "pkg0-1.0.dist-info"
points = info / "entry_points.txt"

def keeping(*paths):
    # the stamps of these paths, put back after the step
    @contextlib.contextmanager
    def kept():
        stamps = [(path, os.stat(path)) for path in paths]
        yield
        for path, stamp in stamps:
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    return kept()

def new(name):
    folder = site / f"{name}-7.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Name: {name}\\nVersion: 7\\n")
    (folder / "RECORD").write_text("pkg1/__init__.py,,\\n")
    (folder / "entry_points.txt").write_text(f"[demo.plugins]\\n{name} = {name}:run\\n")

def step_new_distribution(): new("fresh")
def step_new_distribution_behind_a_restored_mtime():
    with keeping(site): new("hidden")
def step_edit_in_place(): points.write_text("[demo.plugins]\\nedited = a:b\\n")
def step_edit_of_equal_length_with_the_stamp_put_back():
    with keeping(points, info, site): points.write_text("[demo.plugins]\\nEDITED = a:b\\n")
def step_replace_by_rename():
    other = info / "other"
    other.write_text("[demo.plugins]\\nrenamed = a:b\\n")
    other.rename(points)
def step_remove_the_file(): points.unlink()
def step_add_it_again():
    with keeping(info, site): points.write_text("[demo.plugins]\\nagain = a:b\\n")
def step_edit_metadata(): (info / "METADATA").write_text("Name: pkg0\\nVersion: 99\\nRequires-Dist: new\\n")
def step_edit_record(): (info / "RECORD").write_text("pkg0/__init__.py,,\\npkg0/more.py,,\\npkg0.py,,\\n")
def step_create_a_recorded_file(): (site / "pkg0.py").write_text("")
def step_tree_replaced_with_old_stamps():
    shutil.copytree(site, str(site) + ".new")
    other = pathlib.Path(str(site) + ".new") / "pkg1-1.1.dist-info" / "entry_points.txt"
    other.write_text("[demo.plugins]\\nswapped = x\\n")
    stamp = os.stat(site)
    site.rename(str(site) + ".old")
    os.rename(str(site) + ".new", site)
    os.utime(site, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
def step_remove_a_distribution(): shutil.rmtree(site / "pkg2-1.2.dist-info")
def step_uninstall_all():
    for folder in site.glob("*.dist-info"): shutil.rmtree(folder)
def step_install_again(): new("last")
def step_broken_line(): (site / "last-7.dist-info" / "entry_points.txt").write_text("[demo.plugins]\\nbroken\\n")

def now():
    caught = io.StringIO()
    with contextlib.redirect_stdout(caught):
        try:
            ask()
        except Exception as error:
            print(type(error).__name__, error)
    return caught.getvalue()

sys.path.insert(0, str(site))
import vplug_rs; vplug_rs.install()
exec(sys.argv[2])
for name, step in [(k, v) for k, v in globals().items() if k.startswith("step_")]:
    now(); step()
    mine = now()
    genuine = "import sys; sys.path.insert(0, sys.argv[1])\\n" + sys.argv[2] + \\
        "\\ntry:\\n    ask()\\nexcept Exception as error:\\n    print(type(error).__name__, error)"
    fresh = subprocess.run([sys.executable, "-S", "-P", "-B", "-c", genuine, str(site)], capture_output=True, text=True)
    print(name, "same" if (mine, "") == (fresh.stdout, fresh.stderr) else (mine, fresh.stdout, fresh.stderr))
"""


@each_minor()
def test_every_change_shows_at_once(minor: int, tmp_path: Path) -> None:
    site = str(plain_site(tmp_path / "site"))
    printed = bench(minor, tmp_path).answer(STEPS, site, ASK, installed=False)
    steps = STEPS.count("def step_")
    assert [line for line in printed.splitlines() if not line.endswith(" same")] == []
    assert len(printed.splitlines()) == steps >= 15


@each_minor()
def test_fresher_than_the_standard_behind_a_restored_mtime(minor: int, tmp_path: Path) -> None:
    script = """
        import os, pathlib, sys, importlib.metadata as m
        site = pathlib.Path(sys.argv[1]); sys.path.insert(0, str(site))
        before = len(list(m.distributions()))
        stamp = os.stat(site)
        (site / f"{sys.argv[2]}-1.dist-info").mkdir()
        os.utime(site, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        print(len(list(m.distributions())) - before)
    """
    asked = bench(minor, tmp_path)
    site = str(plain_site(tmp_path / "site"))
    assert asked.answer(script, site, "one", installed=False) == "0\n"
    assert asked.answer(script, site, "two", installed=True) == "1\n"


@each_minor()
@pytest.mark.parametrize("entry", ["", "here"])
def test_a_relative_entry_follows_the_current_directory(minor: int, entry: str, tmp_path: Path) -> None:
    for number, place in enumerate(("a", "b")):
        plain_site(tmp_path / place / entry, number + 1)
    script = """
        import os, sys, importlib.metadata as m
        sys.path.insert(0, sys.argv[1])
        for place in sys.argv[2:]:
            os.chdir(place)
            os.utime(sys.argv[1] or ".", (1, 1))
            print([p.name for p in list(m.entry_points(group="demo.plugins"))], m.distribution("pkg0")._path)
    """
    places = (str(tmp_path / "a"), str(tmp_path / "b"))
    printed = bench(minor, tmp_path).answer(script, entry, *places, installed=True)
    assert [line.split("]")[0].count("pkg") for line in printed.splitlines()] == [1, 2]
    assert all(line.endswith(f" {Path(entry, 'pkg0-1.0.dist-info')}") for line in printed.splitlines())
