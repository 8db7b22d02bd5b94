"""The OpenAI server of a real vLLM with plugins of all groups, one that fails, and a name that is misspelt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import api_server
import lab
from api_server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FAULT = "this plugin was made for another vLLM"


def words(model: Path, port: int) -> list[str]:
    # an IO processor needs a pooling model; any model that generates can be used as one
    return api_server.words(model, port, "--runner", "pooling", "--convert", "embed", "--io-processor-plugin", "probe")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, model: Path, probe: Path, broken: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    more = {"VLLM_PLUGINS": "probe,broken,brokn", "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    env = lab.environment(folder, broken, probe, **lab.ON, **more)
    found = Server(folder, lambda port: words(model, port), env)
    yield found
    found.stop()


def told(server: Server, event: str) -> list[dict[str, Any]]:
    return [row for row in lab.events(server.folder) if row["event"] == event]


def test_a_failing_plugin_does_not_stop_it_and_is_named(server: Server) -> None:
    assert told(server, "broken")
    assert "plugin `broken` of broken 1.0 failed" in server.log
    assert FAULT in server.log


def test_a_misspelt_name_is_told(server: Server) -> None:
    assert "`brokn` in VLLM_PLUGINS" in server.log
    assert "`broken` is nearest" in server.log


def test_the_io_processor_answers(server: Server) -> None:
    answer = json.loads(server.ask("/pooling", {"task": "plugin", "data": {"text": "abc"}}))["data"]
    assert answer["width"] == 128
    assert told(server, "io_pre_process")[-1]["prompt"] == "abc"
    backwards = json.loads(server.ask("/tokenize", {"prompt": "cba"}))["tokens"]
    assert answer["tokens"] == backwards


def test_the_stat_logger_records(server: Server) -> None:
    server.ask("/pooling", {"task": "plugin", "data": {"text": "abc"}})
    assert len(told(server, "stats")) == 1
    assert len(told(server, "stats_record")) == 1


def test_the_endpoint_answers(server: Server) -> None:
    (made,) = told(server, "endpoint")
    assert json.loads(server.ask("/probe")) == {"pid": made["pid"]}
    assert told(server, "endpoint_state")[0]["engine"] == "AsyncLLM"


def test_the_metrics_say_what_became_of_each_plugin(server: Server) -> None:
    lines = [line for line in server.ask("/metrics").splitlines() if line.startswith("vplug_plugin_state{")]
    found = {}
    for line in lines:
        labels = dict(word.split("=", 1) for word in line[line.index("{") + 1 : line.index("}")].split(","))
        if line.endswith(" 1.0"):
            found[labels["group"].strip('"'), labels["plugin"].strip('"')] = labels["state"].strip('"')
    assert found["vllm.general_plugins", "probe"] == "loaded"
    assert found["vllm.general_plugins", "broken"] == "failed"
    assert found["vllm.general_plugins", "lora_filesystem_resolver"] == "filtered"
    groups = ("general_plugins", "platform_plugins", "io_processor_plugins", "stat_logger_plugins", "endpoint_plugins")
    assert {group for group, plugin in found if plugin == "probe"} >= {f"vllm.{group}" for group in groups}


def test_each_general_plugin_ran_once_in_each_process(server: Server) -> None:
    pids = [row["pid"] for row in told(server, "general")]
    assert len(pids) == len(set(pids)) == 4  # server, engine, worker, and the one that looks at the model


def test_a_strict_server_does_not_start_and_names_the_plugin(
    tmp_path: Path, model: Path, probe: Path, broken: Path
) -> None:
    env = lab.environment(tmp_path, broken, probe, **lab.ON, VPLUG_STRICT="1")
    done = lab.run(tmp_path, words(model, 1), env)  # it never comes to its port
    assert done.status != 0
    assert "vplug_rs.errors.PluginLoadError: " in done.log
    assert "plugin `broken` of broken 1.0 failed" in done.log


def test_without_us_a_server_does_not_start_either_and_names_no_plugin(
    tmp_path: Path, model: Path, probe: Path, broken: Path
) -> None:
    done = lab.run(tmp_path, words(model, 1), lab.environment(tmp_path, broken, probe))
    assert done.status != 0
    assert done.log.rstrip().endswith(f"RuntimeError: {FAULT}")
    assert "broken 1.0" not in done.log
