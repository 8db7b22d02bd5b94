"""Our resolvers as a general plugin of vLLM: inert until asked for, one log line for a reason, nothing raised."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from interpreters import clean_environment, shared_import_root
from lora_lab import BASE, adapter
from lora_vllm_stand_in import VLLM
from sites import build
from vplug_rs import groups
from vplug_rs.lora import vllm_resolvers

ROOT = Path(__file__).resolve().parent.parent
START = """
    import asyncio, logging, sys
    logging.basicConfig(format="%(levelname)s %(name)s %(message)s", level="INFO")
    from vplug_rs.lora.vllm_resolvers import register
    register()
    from vllm.lora.resolver import LoRAResolverRegistry as registry, LoRAResolver
    def ask(name, base="acme/base-7b"):
        found = asyncio.run(registry.get_resolver("vplug_lora").resolve_lora(base, name))
        return found and (found.lora_name, found.lora_int_id, found.lora_path)
"""


class Host:
    """An installation with a stand-in for vLLM, and a folder of adapters."""

    def __init__(self, where: Path) -> None:
        self.where, self.lora = where, where / "lora"
        build(where / "site", VLLM)
        (where / "tmp").mkdir()
        build(self.lora, {"a": adapter(), "other": adapter(base_model_name_or_path="acme/other"), "bad": {}})

    def run(self, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        given = {"VPLUG_LORA_DIR": str(self.lora), "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", **environment}
        path = f"{self.where / 'site'}:{shared_import_root()}"
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(START) + textwrap.dedent(code)],
            env=clean_environment(PYTHONPATH=path, TMPDIR=str(self.where / "tmp"), **given),
            cwd=self.where,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_the_distribution_offers_it_as_a_general_plugin() -> None:
    points: Any = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    assert list(points[groups.GENERAL]) == [vllm_resolvers.NAME]
    module, _, name = points[groups.GENERAL][vllm_resolvers.NAME].partition(":")
    assert getattr(import_module(module), name) is vllm_resolvers.register


def test_without_a_folder_nothing_is_imported_and_nothing_registered(host: Host) -> None:
    code = """
        new = sorted(name for name in sys.modules if name.startswith("vplug_rs"))
        print(list(registry.get_supported_resolvers()), new)
    """
    done = host.run(code, VPLUG_LORA_DIR="")
    assert done.stdout == "[] ['vplug_rs', 'vplug_rs.env', 'vplug_rs.lora', 'vplug_rs.lora.vllm_resolvers']\n"
    assert done.stderr == ""


def test_an_adapter_becomes_a_request_with_a_path_of_its_own(host: Host) -> None:
    code = """
        name, number, path = ask("a")
        print(name, number > 0, ask("a") == (name, number, path), path.split('/vplug-lora-')[0])
        import os
        print(sorted(os.listdir(path)), isinstance(registry.get_resolver("vplug_lora"), LoRAResolver))
    """
    done = host.run(code)
    assert done.stdout == f"a True True {host.where}/tmp\n['adapter_config.json', 'adapter_model.safetensors'] True\n"
    assert done.stderr == "INFO vllm.vplug_rs adapter `a` comes from filesystem\n"
    assert list((host.where / "tmp").iterdir()) == [], "copies outlive their process"


def test_a_reason_is_logged_once(host: Host) -> None:
    code = """
        for _ in range(3):
            assert not any([ask("other"), ask("nope"), ask("../a"), ask("bad"), ask("a", "x/y"), ask("a\\n\\x1b[31m")])
    """
    done = host.run(code)
    lines = done.stderr.splitlines()
    said = [line.partition(" vllm.vplug_rs adapter ")[::2] for line in lines]
    assert [(level, text.split(": ")[1:3]) for level, text in said] == [
        ("WARNING", ["filesystem", "base-mismatch"]),
        ("INFO", ["filesystem", "not-found"]),
        ("INFO", ["names", "name-dots"]),
        ("WARNING", ["filesystem", "config-missing"]),
        ("WARNING", ["filesystem", "base-mismatch"]),
        ("INFO", ["names", "name-control"]),
    ]
    assert f"`acme/other`, and `{BASE}` is served (If both are the same model, add `acme/other`" in lines[0]
    assert "\x1b" not in done.stderr


def test_an_alias_is_taken_and_told(host: Host) -> None:
    done = host.run("print(bool(ask('other')), bool(ask('other')))", VPLUG_LORA_BASE_ALIASES="x/y, acme/other")
    assert done.stdout == "True True\n"
    assert done.stderr.count("it was made for `acme/other`, which `VPLUG_LORA_BASE_ALIASES` lists") == 1


def test_registering_twice_is_once(host: Host) -> None:
    done = host.run("register(); register(); print(list(registry.get_supported_resolvers()))")
    assert (done.stdout, done.stderr) == ("['vplug_lora']\n", "")


def test_a_folder_that_is_not_there_is_told_and_may_come_later(host: Host) -> None:
    code = """
        import os
        assert ask("a") is None
        os.rename("lora", "later")
        print(bool(ask("a")))
    """
    done = host.run(code, VPLUG_LORA_DIR=str(host.where / "later"))
    assert done.stdout == "True\n"
    assert "folder-unavailable: the folder of all adapters" in done.stderr


def test_a_switch_that_is_neither_on_nor_off_serves_nothing_and_says_so(host: Host) -> None:
    done = host.run("print(list(registry.get_supported_resolvers()))", VPLUG_LORA_ALLOW_PICKLE="maybe")
    assert done.stdout == "[]\n"
    assert "`VPLUG_LORA_ALLOW_PICKLE` is `maybe`" in done.stderr


def test_a_vllm_that_will_ask_nobody_is_told(host: Host) -> None:
    done = host.run("", VLLM_ALLOW_RUNTIME_LORA_UPDATING="0")
    assert "vLLM asks no resolver unless VLLM_ALLOW_RUNTIME_LORA_UPDATING is on too" in done.stderr


@pytest.mark.parametrize("module", ["lora", "lora.resolver", "envs"])
def test_a_vllm_without_its_modules_is_not_stopped(host: Host, module: str) -> None:
    code = f"""
        for name in list(sys.modules):
            if name.startswith("vllm"):
                del sys.modules[name]
        sys.modules["vllm.{module}"] = None
        register()
        print("on")
    """
    done = host.run(code)
    assert done.stdout == "on\n"
    assert "vplug_rs could not register its LoRA resolvers: adapters in `VPLUG_LORA_DIR` are not served" in done.stderr


@pytest.mark.parametrize("fault", ["OSError('disk')", "RuntimeError('x')", "RecursionError()"])
def test_no_error_of_ours_reaches_vllm(host: Host, fault: str) -> None:
    code = f"""
        from vplug_rs.lora import filesystem
        def fail(*_): raise {fault}
        filesystem.FilesystemResolver.find = fail
        print(ask("a"))
        sys.modules["vllm.lora.request"] = None
    """
    done = host.run(code)
    assert done.stdout == "None\n"
    assert "resolver-failed" in done.stderr
    assert "Traceback" in done.stderr


def test_a_request_that_cannot_be_made_is_none(host: Host) -> None:
    done = host.run("sys.modules['vllm.lora.request'] = None\nprint(ask('a'))")
    assert done.stdout == "None\n"
    assert "vplug_rs failed to resolve a LoRA adapter" in done.stderr


def test_what_is_remembered_of_names_is_bounded(host: Host) -> None:
    code = """
        logging.disable()
        for number in range(1100):
            ask(f"n{number}")
        print(len(registry.get_resolver("vplug_lora")._told))
    """
    assert host.run(code).stdout == "1024\n"
