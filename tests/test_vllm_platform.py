"""In a vLLM that we take part in: the platform that is ordered or handed on, and the reason where there is none."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pytest

from test_vllm_activation import Host
from vplug_rs import groups
from vplug_rs.platforms.answers import Answer, PlatformError, choose
from vplug_rs.testing import libraries

if TYPE_CHECKING:
    from pathlib import Path

CUDA, CPU = "vllm.platforms.cuda.CudaPlatform", "vllm.platforms.cpu.CpuPlatform"
RESOLVE = """
    import logging, sys
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s")
    import torch
    import vllm.platforms as platforms
    asked = []
    for name in platforms.builtin_platform_plugins:
        platforms.builtin_platform_plugins[name] = lambda name=name: asked.append(name)
    print(platforms.resolve_current_platform_cls_qualname(), *asked)
"""
ASKED = " tpu cuda rocm xpu cpu"
HAND_ON = """
    import json
    from vplug_rs.platforms import handover, resolution
    print(json.dumps(handover.to_environment(resolution.resolve(active=False))))
"""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, version="0.33.1+cpu")


def test_what_is_ordered_counts_and_no_probe_is_asked(host: Host) -> None:
    done = host.run(RESOLVE, VPLUG_VLLM="1", VPLUG_PLATFORM="cuda", VPLUG_PLATFORM_FORCE="1")
    assert done.stdout == f"{CUDA}\n"
    assert "cuda counts by force" in done.stderr


def test_an_order_that_cannot_be_followed_stops_the_start(host: Host) -> None:
    done = host.run(RESOLVE, VPLUG_VLLM="1", VPLUG_PLATFORM="cudo")
    assert done.returncode == 1
    assert "PlatformError: VPLUG_PLATFORM is `cudo`" in done.stderr
    assert done.stderr.count("Did you mean `cuda`?") == 1


def test_of_two_plugins_the_one_that_is_named_counts(host: Host) -> None:
    for name in ("two", "one"):
        host.plugin(name, f"def register(): return '{name}_mod.Platform'", "vllm.platform_plugins")
    done = host.run(RESOLVE, VPLUG_VLLM="1")
    assert "Only one platform plugin can be activated" in done.stderr
    assert "got: [one of acme-one 1.0, two of acme-two 1.0]" in done.stderr
    assert "VPLUG_PLATFORM=one, or two." in done.stderr
    assert host.run(RESOLVE, VPLUG_VLLM="1", VPLUG_PLATFORM="one").stdout == "one_mod.Platform\n"


def test_what_was_handed_on_counts_and_no_probe_is_asked(host: Host) -> None:
    given = json.loads(host.run(HAND_ON, VPLUG_VLLM="1").stdout)
    assert list(given) == ["VPLUG_PLATFORM_RESULT"]
    done = host.run(RESOLVE, VPLUG_VLLM="1", **given)
    assert (done.stdout, done.stderr) == (f"{CPU}\n", "")


def test_a_platform_whose_own_probe_does_more_than_answer_is_not_handed_on(host: Host) -> None:
    rocm = "vllm.platforms.rocm.RocmPlatform"
    made = f"Resolution('builtin', platform='rocm', qualname='{rocm}', probes=[Probe('rocm', 'present')])"
    imported = "import json\nfrom vplug_rs.platforms import handover\nfrom vplug_rs.platforms.model import *\n"
    given = json.loads(host.run(f"{imported}print(json.dumps(handover.to_environment({made})))", VPLUG_VLLM="1").stdout)
    assert rocm in given["VPLUG_PLATFORM_RESULT"]
    assert host.run(RESOLVE, VPLUG_VLLM="1", **given).stdout.endswith(f"{ASKED}\n")


def test_an_ordered_platform_of_which_nobody_knows_is_unspecified(tmp_path: Path) -> None:
    if libraries.compiler() is None:
        pytest.skip("no C compiler here: the driver that fails cannot be built")
    libraries.fake_nvml(str(tmp_path / "driver"))
    done = Host(tmp_path).run(
        RESOLVE,
        VPLUG_VLLM="1",
        VPLUG_PLATFORM="cuda",
        LD_LIBRARY_PATH=str(tmp_path / "driver"),
        FAKE_NVML_RC_nvmlInitWithFlags="999",
    )
    assert done.stdout == "vllm.platforms.interface.UnspecifiedPlatform\n"
    assert "whether the platform cuda is here is not known" in done.stderr


def test_what_was_handed_on_does_not_count_where_something_differs(host: Host) -> None:
    given = json.loads(host.run(HAND_ON, VPLUG_VLLM="1").stdout)
    done = host.run(RESOLVE, VPLUG_VLLM="1", CUDA_VISIBLE_DEVICES="0", **given)
    assert done.stdout == f"vllm.platforms.interface.UnspecifiedPlatform{ASKED}\n"


def test_where_there_is_none_a_warning_says_what_was_seen_and_what_to_do(host: Host) -> None:
    done = host.run(RESOLVE, VPLUG_VLLM="1")
    assert done.stdout == f"vllm.platforms.interface.UnspecifiedPlatform{ASKED}\n"
    assert "WARNING No platform was found" in done.stderr
    assert "`vplug doctor --platform`" in done.stderr


def test_nothing_of_it_counts_where_it_takes_no_part(host: Host) -> None:
    done = host.run(RESOLVE, VPLUG_PLATFORM="cuda", VPLUG_PLATFORM_FORCE="1")
    # vLLM's own asks the winner twice, and nobody says no more than nothing
    assert done.stdout == f"vllm.platforms.interface.UnspecifiedPlatform{ASKED}\n"
    assert done.stderr == ""


@pytest.mark.parametrize("builtin", [True, False])
@pytest.mark.parametrize("given", ["", "Platform", 7, False, "a.b:C", "a.b.C", None])
def test_what_is_no_answer_is_so_by_the_rule_of_the_group(given: object, builtin: bool) -> None:
    answer, wrong = Answer("x", given, builtin=builtin), groups.wrong_name(given)
    assert answer.qualname == (given if wrong is None else None)
    assert (str(answer.error), answer.fix) == (("None", "") if wrong is None else wrong)


@pytest.mark.parametrize("builtin", [True, False])
def test_a_subclass_of_str_is_no_name_here_either(builtin: bool) -> None:
    class Text(str):
        __slots__ = ()

    assert Answer("x", Text("a.b.C"), builtin=builtin).qualname is None


@pytest.mark.parametrize("builtin", [True, False])
def test_several_that_are_active_are_named_in_the_order_of_their_names(builtin: bool) -> None:
    whose = "" if builtin else "acme 1.0"
    those = [Answer(name, f"{name}.m.P", builtin=builtin, whose=whose) for name in "bca"]
    texts = set()
    for order in itertools.permutations(those):
        with pytest.raises(PlatformError) as caught:
            choose(order)
        texts.add((str(caught.value), caught.value.hint))
    ((text, hint),) = texts
    assert text.endswith("[a, b, c]" if builtin else "[a of acme 1.0, b of acme 1.0, c of acme 1.0]")
    assert hint == "Say which one is meant: VPLUG_PLATFORM=a, or b."
