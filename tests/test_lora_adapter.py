"""`adapter_config.json` and its base model: what is refused, with which code, and what is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lora_lab import BASE, config
from vplug_rs.lora import adapter
from vplug_rs.lora.adapter import Config
from vplug_rs.lora.refusal import Refusal

_BASE = json.dumps(BASE)
INVALID = {
    "empty": b"",
    "blank": b"  \n",
    "cut": config()[:-1],
    "cut in a string": config()[:-5],
    "no object": b"[1]",
    "text": b'"LORA"',
    "null": b"null",
    "number": b"1",
    "two documents": config() + config(),
    "trailing comma": b'{"a": 1,}',
    "comment": b'{"a": 1} // no',
    "single quotes": b"{'a': 1}",
    "twice": b'{"peft_type": "LORA", "peft_type": "OTHER"}',
    "twice within": b'{"a": {"b": 1, "b": 2}}',
    "twice by an escape": b'{"r": 1, "\\u0072": 2}',
    "NaN": config(lora_alpha=float("nan")),
    "Infinity": config(lora_alpha=float("inf")),
    "-Infinity": config(lora_alpha=float("-inf")),
    "beyond a double": b'{"lora_alpha": 1e999}',
    "a number of 5000 digits": b'{"r": ' + b"9" * 5000 + b"}",
    "deep lists": b'{"a": ' + b"[" * 33 + b"]" * 33 + b"}",
    "very deep lists": b"[" * 500_000,
    "deep objects": b'{"a":' * 100_000,
    "deep and closed": b"[" * 400_000 + b"]" * 400_000,
    "UTF-16": config().decode().encode("utf-16"),
    "UTF-8 with a mark": b"\xef\xbb\xbf" + config(),
    "Latin-1": '{"a": "é"}'.encode("latin-1"),
    "cut UTF-8": b'{"a": "\xc3"}',
    "encoded surrogate": b'{"a": "\xed\xa0\x80"}',
    "overlong slash": b'{"a": "\xc0\xaf"}',
    "NUL": b'{"a": "\0"}',
    "only NULs": b"\0" * 1000,
    "bare line break": b'{"a": "x\ny"}',
    "pickle": b"\x80\x04}\x94.",
    "half a million quotes": b'"' * 500_001,
    "half a million escapes": b'{"a": "' + b"\\" * 500_001,
    "half a million escaped quotes": b'{"a": "' + b'\\"' * 500_000,
}
KEYS: list[dict[str, Any]] = [
    *({key: ...} for key in ("peft_type", "base_model_name_or_path", "r", "lora_alpha", "target_modules")),
    *({"peft_type": value} for value in (None, 1, ["LORA"], {"a": "LORA"}, True)),
    *({"base_model_name_or_path": value} for value in (None, "", 1, [BASE], {"name": BASE}, False)),
    *({"r": value} for value in (None, 0, -1, 1.5, 8.0, "8", True, [8], 1 << 31, 1 << 70)),
    *({"lora_alpha": value} for value in (None, "16", True, [16], 1e300, {"a": 1})),
    *({"target_modules": value} for value in (None, 1, [1], ["q", None], {"q": 1}, True)),
    *({"rank_pattern": value} for value in (1, "q", [8], {"q": "8"}, {"q": 0}, {"q": 1.5}, {"q": True})),
    *({"alpha_pattern": value} for value in (1, "q", [8], {"q": "8"}, {"q": None}, {"q": False})),
]


def refused(data: bytes) -> Refusal:
    with pytest.raises(Refusal) as caught:
        adapter.read(data, "`it`")
    assert caught.value.hint
    assert str(caught.value).startswith("`it`")
    assert str(caught.value).isprintable()
    return caught.value


@pytest.mark.parametrize("data", INVALID.values(), ids=INVALID)
def test_what_is_no_json_to_be_trusted_is_refused(data: bytes) -> None:
    assert refused(data).code == "config-invalid"


@pytest.mark.parametrize("changes", KEYS, ids=str)
def test_a_key_that_is_missing_or_of_the_wrong_type_is_named(changes: dict[str, Any]) -> None:
    refusal = refused(config(**changes))
    assert refusal.code == "config-key"
    assert f"`{next(iter(changes))}`" in str(refusal)


@pytest.mark.parametrize("kind", ["lora", "Lora", "IA3", "PREFIX_TUNING", "ADALORA", "", "LORA "])
def test_another_type_of_adapter_is_refused(kind: str) -> None:
    assert refused(config(peft_type=kind)).code == "peft-type"


def test_a_configuration_beyond_the_limit_is_not_parsed() -> None:
    data = config(note="x" * adapter.MOST_CONFIG_BYTES)
    assert refused(data).code == "config-too-large"


def test_what_a_configuration_may_have_besides_does_not_disturb() -> None:
    more = config(r=64, lora_alpha=16.5, target_modules="all-linear", task_type="CAUSAL_LM", rank_pattern={"q": 8},
                  alpha_pattern={"q": 1.5}, loftq_config={}, deep=[[[{}]]], text='[[[["{{{\\')  # fmt: skip
    assert adapter.read(more, "it") == Config(BASE, 64)
    assert adapter.read(config(rank_pattern=None, alpha_pattern=None, note='"' + "[" * 90), "it") == Config(BASE, 4)


@given(st.binary(max_size=60) | st.text("{}[]\",:\\ '0rLORA", max_size=60).map(str.encode))
def test_any_bytes_give_an_answer_or_a_refusal(data: bytes) -> None:
    with pytest.raises(Refusal):
        adapter.read(data, "it")


def test_the_base_model_is_the_served_one_by_its_exact_name_or_by_an_alias() -> None:
    made = Config(BASE, 4)
    assert adapter.match(made, BASE, (), "it") == adapter.EXACT
    assert adapter.match(made, "/models/base", {BASE, "other"}, "it") == adapter.ALIAS
    assert adapter.match(made, BASE, {BASE}, "it") == adapter.EXACT


@pytest.mark.parametrize(
    "served",
    ["base-7b", "acme/base-7B", "acme/base-7b/", "acme/base-7b-chat", "other/base-7b", "/models/acme/base-7b", ""],
)
def test_another_base_model_is_refused_however_alike_its_name(served: str) -> None:
    with pytest.raises(Refusal) as caught:
        adapter.match(Config(BASE, 4), served, {"base-7b", "acme/other"}, "adapter `a`")
    assert caught.value.code == "base-mismatch"
    assert str(caught.value) == f"adapter `a` was made for `{BASE}`, and `{served}` is served"
    assert caught.value.hint == f"If both are the same model, add `{BASE}` to `VPLUG_LORA_BASE_ALIASES`."
