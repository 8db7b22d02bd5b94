"""IO processors: which one is meant, that no other one is imported, each way to miss it, and what vLLM calls."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from sites import build, dist
from test_loader import TOUCH
from vllm_bed import VllmBed
from vplug_rs.groups import IO_PROCESSOR

GOOD = """
from vllm.plugins.io_processors.interface import IOProcessor
class Masks(IOProcessor):
    def __init__(self, vllm_config, renderer): ...
    def parse_data(self, data): ...
    def pre_process(self, prompt, request_id=None, **kwargs): ...
    def post_process(self, model_output, request_id=None, **kwargs): ...
def run():
    import os
    os.close(os.open("called-masks", os.O_CREAT))
    return "masks_mod.Masks"
"""
WHO = "plugin `masks` of acme-masks 2.0 (`masks_mod.Masks`)"


@pytest.fixture
def bed(tmp_path: Path) -> VllmBed:
    return VllmBed(tmp_path, IO_PROCESSOR).offer("masks", GOOD, version="2.0")


def selected(bed: VllmBed, arguments: str, **environment: str) -> Any:
    """Select; give the class and the origin, or the error."""
    (said,) = bed.run(
        f"""
        from vplug_rs.interfaces import io_processor
        try:
            found = io_processor.select({arguments})
        except vplug_rs.VplugError as error:
            assert isinstance(error, ValueError), "as vLLM's own"
            names = [failure.phase for failure in getattr(error, "failures", ())]
            say(type(error).__name__, str(error), error.hint, names)
        else:
            say(found.cls.__name__, found.origin, found.plugin.name, len(found.findings))
        """,
        environment=environment,
    )
    return said


@pytest.mark.parametrize(
    ("arguments", "origin"),
    [
        ('"masks"', "the caller"),
        ('"masks", "another"', "the caller"),
        ('None, "masks"', "the model's configuration"),
        ('"", "masks"', "the model's configuration"),
    ],
)
def test_the_name_that_was_given_wins_over_the_models(bed: VllmBed, arguments: str, origin: str) -> None:
    assert selected(bed, arguments) == ["Masks", origin, "masks", 0]


def test_only_what_is_asked_for_is_imported_and_called(bed: VllmBed) -> None:
    bed.offer("loud", TOUCH + "raise SystemExit(1)\n")
    assert selected(bed, '"masks"') == ["Masks", "the caller", "masks", 0]
    assert (bed.folder / "called-masks").exists()
    assert not (bed.folder / "touched.txt").exists()


def test_without_a_request_nobody_looks(bed: VllmBed) -> None:
    ((found, names),) = bed.run("""
        from vplug_rs.interfaces import io_processor
        vplug_rs._core.SCANNER = None
        say(io_processor.select(None, None), [name for name in sys.modules if name.endswith("_mod")])
    """)
    assert (found, names) == (None, [])


def test_it_is_called_once_however_often_it_is_asked_for(bed: VllmBed) -> None:
    ((calls, same),) = bed.run("""
        import masks_mod
        from vplug_rs.interfaces import io_processor
        calls, run = [], masks_mod.run
        masks_mod.run = lambda: calls.append(1) or run()
        first, second = io_processor.select("masks"), io_processor.select(None, "masks")
        say(len(calls), first.cls is second.cls)
    """)
    assert (calls, same) == (1, True)


def test_none_is_installed(tmp_path: Path) -> None:
    bed = VllmBed(tmp_path, IO_PROCESSOR)
    assert selected(bed, 'None, "masks"') == [
        "IOProcessorNotFoundError",
        "no IO processor plugin is installed, and the model's configuration asks for `masks`",
        "Install the distribution that has it in vllm.io_processor_plugins.",
        [],
    ]


def test_others_are_installed(bed: VllmBed) -> None:
    bed.offer("audio", TOUCH)
    assert selected(bed, '"mask"', VLLM_PLUGINS="masks") == [
        "IOProcessorNotFoundError",
        (
            "no installed distribution offers `mask` in vllm.io_processor_plugins; the caller asks for it, and "
            "installed are: "
            "plugin `audio` of acme-audio 1.0 (filtered), plugin `masks` of acme-masks 2.0"
        ),
        "Did you mean `masks`?",
        [],
    ]
    assert not (bed.folder / "touched.txt").exists()


def test_the_policy_keeps_it_out(bed: VllmBed) -> None:
    bed.offer("audio", "def run(): ...")
    assert selected(bed, 'None, "masks"', VLLM_PLUGINS="audio") == [
        "IOProcessorRefusedError",
        (
            "plugin `masks` of acme-masks 2.0 is asked for by the model's configuration as the IO processor, but "
            "may not load: "
            "it is not on the allowlist in VLLM_PLUGINS"
        ),
        "Allow `masks` in VLLM_PLUGINS.",
        [],
    ]
    assert selected(bed, '"masks", policy=Policy(deny=["masks"])')[1:3] == [
        (
            "plugin `masks` of acme-masks 2.0 is asked for by the caller as the IO processor, but may not load: "
            "`!masks` in code denies it"
        ),
        "Take the denial out of code.",
    ]


def test_a_function_that_makes_one_is_taken_as_vllm_takes_it_with_a_finding(tmp_path: Path) -> None:
    bed = VllmBed(tmp_path, IO_PROCESSOR).offer("x", "def make(c, r): return 'made'\ndef run(): return 'x_mod.make'")
    (said,) = bed.run("""
        from vplug_rs.interfaces import io_processor
        found = io_processor.select("x")
        say(found.cls(None, None), [finding.severity for finding in found.findings])
    """)
    assert said[0] == "made"
    assert said[1] == ["error"]


ASKED = "; the caller asks for it"
FAILED = "plugin `x` of acme-x 1.0 failed at {} (`x_mod:run` in vllm.io_processor_plugins): {}" + ASKED


@pytest.mark.parametrize(
    ("source", "text", "hint", "phases"),
    [
        (
            "import openpyxl",
            FAILED.format("import", "ModuleNotFoundError: No module named 'openpyxl'"),
            "Install what provides `openpyxl`, or reinstall the plugin with the extras that it needs.",
            ["import"],
        ),
        (
            "def run(): raise OSError('no licence')",
            FAILED.format("call", "OSError: no licence"),
            None,
            ["call"],
        ),
        (
            "def run(): return None",
            "plugin `x` of acme-x 1.0 says that it does not apply here (its function returned `None`)" + ASKED,
            "Its documentation may say what it needs.",
            [],
        ),
        (
            "def run(): return 'x_mod:X'",
            FAILED.format(
                "call",
                "TypeError: its call gave the text 'x_mod:X', and a class's dotted name is wanted, as "
                "`package.module.Class`, or `None` where it does not apply",
            ),
            'vLLM splits at the last dot, and strips nothing: `return "x_mod.X"`.',
            ["call"],
        ),
        (
            "class run: ...",
            FAILED.format(
                "resolve",
                "TypeError: it is the class `run` itself, and vllm.io_processor_plugins wants a function without "
                "arguments "
                "that returns a class's dotted name, or `None` where it does not apply",
            ),
            'Name a function that returns its name: `x_mod:function`, with `return "x_mod.run"` in it.',
            ["resolve"],
        ),
        (
            "def run(): return 'x_mod.Missing'",
            FAILED.format("resolve", "AttributeError: module 'x_mod' has no attribute 'Missing'"),
            "Its function names `x_mod.Missing`; correct that, or reinstall it.",
            ["resolve"],
        ),
        (
            "def run(): return 'x_missing.X'",
            FAILED.format("import", "ModuleNotFoundError: No module named 'x_missing'"),
            "Its function names `x_missing.X`; correct that, or reinstall it.",
            ["import"],
        ),
        (
            "number = 3\ndef run(): return 'x_mod.number'",
            FAILED.format("resolve", "TypeError: `x_mod.number`, which its function names, is int and no class"),
            "Return the dotted name of the class.",
            ["resolve"],
        ),
        (
            "def run():\n    from vplug_rs.interfaces import io_processor\n    return io_processor.select('x')",
            FAILED.format(
                "call",
                "IOProcessorLoadError: plugin `x` of acme-x 1.0 failed at wait (`x_mod:run` in "
                "vllm.io_processor_plugins): "
                "RuntimeError: it asks for itself while it is being called; the caller asks for it",
            ),
            None,
            ["call"],
        ),
    ],
    ids=lambda text: text[:40] if isinstance(text, str) and "def run" in text else None,
)
def test_it_is_there_but_cannot_be_used(
    tmp_path: Path, source: str, text: str, hint: str | None, phases: list[str]
) -> None:
    bed = VllmBed(tmp_path, IO_PROCESSOR).offer("x", source)
    assert selected(bed, '"x"') == ["IOProcessorLoadError", text, hint, phases]


def test_a_failure_is_tried_again(tmp_path: Path) -> None:
    bed = VllmBed(tmp_path, IO_PROCESSOR).offer("masks", GOOD.replace("import os", "import os, later"), version="2.0")
    (said,) = bed.run("""
        from vplug_rs.interfaces import io_processor
        for _ in range(2):
            try:
                found = io_processor.select("masks").cls.__name__
            except ValueError as error:
                found = type(error).__name__
            os.makedirs("later", exist_ok=True)
            sys.path.append(os.getcwd())
            say(found) if found == "Masks" else None
    """)
    assert said == ["Masks"]


@pytest.mark.parametrize("name", ["5", '""', '["masks"]', "False"])
def test_a_model_may_ask_for_nonsense(bed: VllmBed, name: str) -> None:
    kind, text, hint, _ = selected(bed, f"None, {name}")
    shown = name.replace('"', "'")
    assert (kind, text, hint) == (
        "IOProcessorNotFoundError",
        f"`io_processor_plugin` in the model's configuration is {shown}, and the name of a plugin is wanted",
        "Name one with `--io-processor-plugin`.",
    )


def test_of_two_distributions_the_one_that_counts_is_asked(bed: VllmBed) -> None:
    build(bed.site, dist("zeta", "9", f"[{IO_PROCESSOR}]\nmasks = zeta_mod:run\n"))
    build(bed.site, {"zeta_mod.py": textwrap.dedent(GOOD).replace("masks_mod.Masks", "zeta_mod.Masks")})
    ((module,),) = bed.run("""
        from vplug_rs.interfaces import io_processor
        say(io_processor.select("masks").cls.__module__)
    """)
    assert module == "zeta_mod"  # the last one, as in vLLM's dict


def findings(tmp_path: Path, source: str) -> list[list[str]]:
    bed = VllmBed(tmp_path, IO_PROCESSOR).offer("masks", source, "masks_mod:Masks", version="2.0")
    return bed.findings("io_processor", "masks")


def test_a_whole_processor_has_no_findings(tmp_path: Path) -> None:
    assert findings(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("line", "instead", "finding"),
    [
        (
            "(self, vllm_config, renderer)",
            "(self, vllm_config)",
            [
                "error",
                (
                    f"{WHO}: `__init__(self, vllm_config)` does not take what vLLM makes it with, (vllm_config, "
                    "renderer): too "
                    "many positional arguments"
                ),
                "Declare `def __init__(self, vllm_config, renderer)`.",
            ],
        ),
        (
            "def parse_data",
            "def parse_request",
            [
                "error",
                f"{WHO}: `parse_request` is the name of older versions, and vLLM calls `parse_data`",
                "Rename it to `parse_data`.",
            ],
        ),
        (
            "    def parse_data(self, data): ...\n",
            "    def validate_or_generate_params(self, params=None): ...\n",
            [
                "error",
                (
                    f"{WHO}: `validate_or_generate_params` is the name of older versions, and vLLM calls "
                    "`merge_pooling_params`"
                ),
                "Rename it to `merge_pooling_params`.",
            ],
        ),
        (
            "    def parse_data(self, data): ...\n",
            "",
            [
                "error",
                f"{WHO}: `parse_data` is vLLM's own, which raises NotImplementedError",
                "Write `def parse_data(self, data)`.",
            ],
        ),
        (
            "def pre_process(self, prompt,",
            "def pre_process(self, text,",
            [
                "error",
                (
                    f"{WHO}: `pre_process(self, text, request_id=None, **kwargs)` does not take what vLLM calls "
                    "it with, "
                    "(prompt=..., request_id=...): missing a required argument: 'text'"
                ),
                "Declare `def pre_process(self, prompt, request_id=None, **kwargs)`.",
            ],
        ),
        (
            "def post_process(self, model_output, request_id=None, **kwargs)",
            "async def post_process(self, model_output, request_id=None, **kwargs)",
            [
                "error",
                f"{WHO}: `post_process` is `async def`, and vLLM does not await it: nothing in it would run",
                "Declare `def post_process(self, model_output, request_id=None, **kwargs)`.",
            ],
        ),
        (
            "    def parse_data(self, data): ...\n",
            "    def parse_data(self, data): ...\n    def pre_process_async(self, prompt, request_id=None): ...\n",
            [
                "error",
                f"{WHO}: `pre_process_async` is no `async def`, and vLLM awaits what it gives",
                "Declare `async def pre_process_async(self, prompt, request_id=None, **kwargs)`.",
            ],
        ),
        (
            "(IOProcessor)",
            "",
            [
                "error",
                f"{WHO}: there is no `merge_pooling_params`",
                "Declare `def merge_pooling_params(self, params=None)`.",
            ],
        ),
        (
            "(IOProcessor)",
            "",
            [
                "warning",
                f"{WHO}: there is no `post_process_async`",
                "Declare `async def post_process_async(self, model_output, request_id=None, **kwargs)`.",
            ],
        ),
    ],
)
def test_each_fault_is_told_with_its_fix(tmp_path: Path, line: str, instead: str, finding: list[str]) -> None:
    assert line in GOOD
    assert finding in findings(tmp_path, GOOD.replace(line, instead))
