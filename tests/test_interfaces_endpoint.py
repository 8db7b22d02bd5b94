"""Endpoint plugins: what one has to offer, when a server may use it, which routes it takes over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vllm_bed import VllmBed
from vplug_rs.groups import ENDPOINT
from vplug_rs.interfaces import endpoint

GOOD = """
class Score:
    name = "score"
    required_tasks = ("embed",)
    def attach_router(self, app): ...
    async def init_state(self, engine_client, state, args): ...
score = Score()
"""
WHO = "plugin `score` of acme-score 0.7 (`score_mod.Score`)"


def findings(tmp_path: Path, source: str, value: str = "score_mod:Score") -> list[list[str]]:
    bed = VllmBed(tmp_path, ENDPOINT).offer("score", source, value, version="0.7")
    return bed.findings("endpoint", "score")


@pytest.mark.parametrize("value", ["score_mod:Score", "score_mod:score"])
def test_a_whole_plugin_has_no_findings_as_class_and_as_object(tmp_path: Path, value: str) -> None:
    assert findings(tmp_path, GOOD, value) == []


@pytest.mark.parametrize("value", ["score_mod:Score", "score_mod:score"])
@pytest.mark.parametrize(
    ("line", "instead", "finding"),
    [
        (
            "async def init_state",
            "def init_state",
            [
                "error",
                f"{WHO}: `init_state` is no `async def`, and vLLM awaits what it gives",
                "Declare `async def init_state(self, engine_client, state, args)`.",
            ],
        ),
        (
            "def attach_router(self, app)",
            "async def attach_router(self, app)",
            [
                "error",
                f"{WHO}: `attach_router` is `async def`, and vLLM does not await it: nothing in it would run",
                "Declare `def attach_router(self, app)`.",
            ],
        ),
        (
            "(self, engine_client, state, args)",
            "(self, engine_client, state)",
            [
                "error",
                (
                    f"{WHO}: `init_state(self, engine_client, state)` does not take what vLLM calls it with, "
                    "(engine_client, "
                    "state, args): too many positional arguments"
                ),
                "Declare `async def init_state(self, engine_client, state, args)`.",
            ],
        ),
        (
            "    def attach_router(self, app): ...\n",
            "",
            ["error", f"{WHO}: there is no `attach_router`", "Declare `def attach_router(self, app)`."],
        ),
        (
            '    name = "score"\n',
            "",
            ["error", f"{WHO}: there is no `name`", 'Set `name = "..."`, the same as the entry point\'s.'],
        ),
        (
            'name = "score"',
            'name = "scorer"',
            [
                "warning",
                f"{WHO}: its `name` is `scorer`, but `VLLM_PLUGINS` has to list the entry point's name `score`",
                "Give both the same name.",
            ],
        ),
        (
            '    required_tasks = ("embed",)\n',
            "",
            ["error", f"{WHO}: there is no `required_tasks`", "Set `required_tasks = None`, or a tuple of tasks."],
        ),
        (
            '("embed",)',
            '("embed")',
            [
                "error",
                f"{WHO}: `required_tasks` is a text, of which vLLM takes each letter for a task",
                "Set `('embed',)`.",
            ],
        ),
        (
            '("embed",)',
            "()",
            [
                "warning",
                f"{WHO}: `required_tasks` is empty, so no server ever has one of them",
                "Set `required_tasks = None`.",
            ],
        ),
        (
            '("embed",)',
            "True",
            ["error", f"{WHO}: `required_tasks` is True", "Set `required_tasks = None`, or a tuple of tasks."],
        ),
    ],
)
def test_each_fault_is_told_with_its_fix(
    tmp_path: Path, value: str, line: str, instead: str, finding: list[str]
) -> None:
    assert line in GOOD
    assert findings(tmp_path, GOOD.replace(line, instead), value) == [finding]


def test_what_a_constructor_sets_is_seen_in_the_object_alone(tmp_path: Path) -> None:
    source = GOOD.replace('    name = "score"\n', "    def __init__(self): self.nam = 'score'\n")
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    assert findings(one, source) == []
    assert [text for _, text, _ in findings(other, source, "score_mod:score")] == [f"{WHO}: there is no `name`"]


def test_a_class_has_to_be_made_without_arguments(tmp_path: Path) -> None:
    source = GOOD.replace("    name", "    def __init__(self, app): ...\n    name", 1).replace("score = Score()", "")
    assert findings(tmp_path, source) == [
        [
            "error",
            (
                f"{WHO}: `__init__(self, app)` does not take what vLLM makes it with, (): missing a required "
                "argument: 'app'"
            ),
            "Let it be made without arguments.",
        ]
    ]


class Plugin:
    def __init__(self, tasks: Any) -> None:
        self.required_tasks = tasks


class Raising:
    @property
    def required_tasks(self) -> Any:
        raise OSError("no config")


@pytest.mark.parametrize(
    ("tasks", "supported", "reason"),
    [
        (None, None, None),
        (None, (), None),
        (("embed",), ("generate", "embed"), None),
        (["score", "embed"], ("embed",), None),
        (
            ("embed",),
            ("generate", "score"),
            "it is left out: it requires one of `embed`, and the server has `generate`, `score`",
        ),
        (
            ("embed", "score"),
            None,
            "it is left out: it requires one of `embed`, `score`, and the server has no task",
        ),
        (("embed",), (), "it is left out: it requires one of `embed`, and the server has no task"),
        ((), ("embed",), "it is left out: it requires one of none, and the server has `embed`"),
    ],
)
def test_the_gate_asks_for_one_common_task(tasks: Any, supported: Any, reason: str | None) -> None:
    found = endpoint.gate(Plugin(tasks), supported)
    assert (None if found is None else found.text) == reason
    assert found is None or found.severity == "warning"


@pytest.mark.parametrize(
    ("found", "error"), [(Raising(), "OSError"), (object(), "AttributeError"), (Plugin(5), "TypeError")]
)
def test_tasks_that_cannot_be_read_close_the_gate_and_stop_nobody(found: Any, error: str) -> None:
    finding = endpoint.gate(found, ("embed",))
    assert finding is not None
    assert (finding.severity, finding.text) == ("error", f"`required_tasks` cannot be read ({error})")


ROUTES = """
    from vplug_rs.interfaces import endpoint
    from vplug_rs.interfaces.endpoint import Route
    rows = [PluginLoader("vllm.endpoint_plugins", policy=Policy(), kind="any").get(name) for name in ("score", "audit")]
    score, audit = rows
    say(*[[one.severity, one.message, one.hint] for one in endpoint.collisions({core}, {plugins})])
"""


def collided(tmp_path: Path, core: str, plugins: str) -> list[list[str]]:
    bed = VllmBed(tmp_path, ENDPOINT)
    for name, version in (("score", "0.7"), ("audit", "1.2")):
        bed.offer(name, "def run(): ...", version=version)
    (said,) = bed.run(ROUTES.format(core=core, plugins=plugins))
    assert isinstance(said, list)
    return said


def test_a_route_that_replaces_one_of_vllm_is_told(tmp_path: Path) -> None:
    core = '[Route("/v1/score", ["POST"]), Route("/health", ["GET"])]'
    assert collided(
        tmp_path, core, '[(score, Route("/v1/score", ["GET", "POST"])), (score, Route("/v1/mine", ["POST"]))]'
    ) == [
        [
            "warning",
            "plugin `score` of acme-score 0.7: its `POST /v1/score` takes the place of that of vLLM itself",
            "Choose a path of its own.",
        ]
    ]


def test_a_later_plugin_replaces_an_earlier_one(tmp_path: Path) -> None:
    plugins = (
        '[(score, Route("/v1/x", ["GET", "POST"])), (audit, Route("/v1/x", ["POST"])), '
        '(score, Route("/v1/x", ["GET"]))]'
    )
    assert collided(tmp_path, "[]", plugins) == [
        [
            "warning",
            (
                "plugin `audit` of acme-audit 1.2: its `POST /v1/x` takes the place of that of plugin `score` of "
                "acme-score "
                "0.7"
            ),
            "Choose a path of its own.",
        ]
    ]


def test_a_route_that_another_spelling_hides_is_told(tmp_path: Path) -> None:
    core = '[Route("/v1/files/{id}", ["GET"]), Route("/v1/pages/{n:int}", ["GET"])]'
    plugins = '[(score, Route("/v1/files/{name}", ["GET", "POST"])), (score, Route("/v1/pages/{name}", ["GET"]))]'
    assert collided(tmp_path, core, plugins) == [
        [
            "warning",
            (
                "plugin `score` of acme-score 0.7: its `GET /v1/files/{name}` never answers, since "
                "`/v1/files/{id}` of vLLM "
                "itself comes first and matches the same"
            ),
            "Spell the path as there to replace it, or choose one of its own.",
        ]
    ]


def test_a_route_that_no_key_guards_is_told(tmp_path: Path) -> None:
    assert collided(tmp_path, "[]", '[(audit, Route("/admin", ["GET"]))]') == [
        [
            "warning",
            "plugin `audit` of acme-audit 1.2: `/admin` is not covered by `--api-key`, so everybody may call it",
            "Let it begin with one of /v1, /v2, /inference, /cohere.",
        ]
    ]


@pytest.mark.parametrize(("core", "own"), [("", ", plain=True"), (", plain=True", "")])
def test_a_route_that_vllm_does_not_put_in_the_place_of_another_is_told(tmp_path: Path, core: str, own: str) -> None:
    plugins = f'[(score, Route("/v1/docs", ["GET"]{own})), (audit, Route("/v1/docs", ["GET"]))]'
    found = collided(tmp_path, f'[Route("/v1/docs", ["GET"]{core})]', plugins)
    assert found[0] == [
        "warning",
        (
            "plugin `score` of acme-score 0.7: its `GET /v1/docs` never answers, since that of vLLM itself comes "
            "first, "
            "and only FastAPI's own routes are replaced"
        ),
        "Choose a path of its own.",
    ]
    (_, text, _) = found[1]
    end = "never answers" if core else "takes the place of that of vLLM itself"
    assert end in text


def test_what_an_app_gains_is_told_by_identity() -> None:
    class Found:
        def __init__(self, path: str, *methods: str) -> None:
            self.path = path
            self.methods = set(methods) or None

    api = type("Api", (type("APIRoute", (Found,), {"__module__": "fastapi.routing"}),), {})
    old, mount, new, docs = api("/v1/x", "POST"), Found("/metrics"), api("/v1/x", "POST", "GET"), Found("/docs", "GET")

    def shown(routes: list[endpoint.Route]) -> list[tuple[str, tuple[str, ...], bool]]:
        return [(route.path, route.methods, route.plain) for route in routes]

    assert shown(endpoint.routes([old, mount, object()])) == [("/v1/x", ("POST",), False)]
    assert shown(endpoint.added([old, mount], [docs, old, new, mount])) == [
        ("/docs", ("GET",), True),
        ("/v1/x", ("GET", "POST"), False),
    ]
