"""Installations with plugins in vLLM's six groups, and environments to ask them in: a seed in, files and a job out.

The plugins note what is imported and called in `sys.oracle_events`. The same seed gives the same files; with `mend` the
same installation without the faults that vLLM's loader cannot bear and ours can.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

GROUPS = (
    "vllm.general_plugins",
    "vllm.platform_plugins",
    "vllm.io_processor_plugins",
    "vllm.stat_logger_plugins",
    "vllm.endpoint_plugins",
    "vllm.logits_processors",
)
GENERAL, PLATFORM, _, _, ENDPOINT, LOGITS = GROUPS
NAMES = ("x", "y", "z", "X", "x_y", "cuda", "cpu", "a b", "nöme", "long-plugin.name")
LISTS = (
    "",
    ",",
    "x",
    " x",
    "x, y",
    "x,,y",
    "X",
    "x,nope",
    "y,x,z",
    "cuda",
    "cuda,x",
    "x,y,z,X,x_y,cuda,cpu,nöme,a b",
    "nöme",
)
BUILTIN = ("tpu", "cuda", "rocm", "xpu", "cpu")
DEVICES = ("", "", "", "", "cpu", "cuda")
TASKS: tuple[list[str] | None, ...] = (None, [], ["generate"], ["embed", "generate"], ["render"])

# what stands in a module, by what it is good for; {id} is the module's name
OBJECTS = {
    "fine": "def run():\n    note('call', '{id}')\n    return None\n",
    "raises": "def run():\n    note('call', '{id}')\n    raise RuntimeError('{id} raises')\n",
    "number": "run = 3\n",
    "callable": "class Number(int):\n    def __call__(self):\n        pass\nrun = Number(3)\n",
    "class": "class run:\n    def __init__(self):\n        note('call', '{id}')\n",
    "nested": "class run:\n    @staticmethod\n    def inner():\n        note('call', '{id}')\n",
    "late": "def run():\n    note('call', '{id}')\n    import vplug_oracle_missing\n",
    "exits": "def run():\n    note('call', '{id}')\n    raise SystemExit(3)\n",
}
BROKEN = ("raise ValueError('broken {id}')\n", "import vplug_oracle_missing\n", "raise SystemExit(4)\n", "def (:\n")
PLATFORMS = {
    "declines": "def run():\n    note('call', '{id}')\n    return None\n",
    "here": "def run():\n    note('call', '{id}')\n    return 'plat.{id}.Platform'\n",
    "raises": "def run():\n    note('call', '{id}')\n    raise OSError('no such device')\n",
    "empty": "def run():\n    note('call', '{id}')\n    return ''\n",
    "class": "class Platform:\n    pass\ndef run():\n    note('call', '{id}')\n    return Platform\n",
    "tired": "asked = []\ndef run():\n    note('call', '{id}')\n    asked.append(1)\n    if len(asked) > 1:\n"
    "        raise OSError('asked twice')\n    return 'plat.{id}.Platform'\n",
}
ENDPOINTS = {
    "open": "class run:\n    required_tasks = None\n",
    "asks": "class run:\n    required_tasks = ('generate', 'classify')\n",
    "factory": "class Made:\n    required_tasks = ('embed',)\n"
    "def run():\n    note('call', '{id}')\n    return Made()\n",
    "taskless": "class run:\n    pass\n",
    "raises": "def run():\n    note('call', '{id}')\n    raise KeyError('{id}')\n",
    "strict": "class run:\n    @property\n    def required_tasks(self):\n        raise RuntimeError('not yet')\n",
}
# what vLLM's loader cannot bear -> what comes to the same for a loader that can
MENDED = {
    "general": {"raises": "fine", "late": "fine", "exits": "fine", "number": "callable"},
    PLATFORM: {"empty": "raises", "class": "raises", "tired": "here"},
    ENDPOINT: {"taskless": "raises", "strict": "raises"},
}
RENAMED = {"cuda": "x-cuda", "cpu": "x-cpu"}  # vLLM takes a plugin of a built-in platform's name for that platform
CALLABLE_MODULE = (
    "kind = type(sys)\nsys.modules[__name__].__class__ = type('Module', (kind,), {'__call__': lambda self: None})\n"
)
HEAD = "import sys\nnote = lambda *what: sys.oracle_events.append(list(what))\nnote('import', '{id}')\n"


class Maker:
    """One installation."""

    def __init__(self, root: Path, seed: int, *, mend: bool = False) -> None:
        self.rng = random.Random(f"vllm oracle {seed}")
        self.root = root
        self.mend = mend
        self.faulty: list[str] = []
        self.sound: list[list[Any]] = []
        self.projects: list[str] = []
        self.serial = 0
        self.damage = self.rng.random() < 0.15
        self.folders = [root / f"p{number}" for number in range(self.rng.choice((1, 1, 2, 3)))]

    def make(self) -> dict[str, Any]:
        """Write it; give the job."""
        for folder in self.folders:
            folder.mkdir(parents=True)
        for _ in range(self.rng.randint(0, 7)):
            self.distribution()
        rng = self.rng
        operations: list[list[Any]] = [["group", group] for group in GROUPS[:5]]
        operations += [["general"], ["general"], ["endpoint", rng.choice(TASKS)], ["platform"], ["logits"]]
        rng.shuffle(operations)
        plugins = rng.choice((None, None, *LISTS))
        if self.mend and plugins is not None:
            plugins = ",".join(
                [*plugins.split(","), *(new for old, new in RENAMED.items() if old in plugins.split(","))]
            )
        return {
            "path": [str(folder) for folder in self.folders],
            "plugins": plugins,
            "faulty": self.faulty,
            "sound": self.sound,
            "projects": self.projects,
            "device": rng.choice(DEVICES),
            "builtin": {name: rng.choice(("declines",) * 4 + ("here", "raises")) for name in BUILTIN},
            "operations": operations[: rng.choice((3, 5, 10))],
            "damaged": self.damage,
        }

    def distribution(self) -> None:
        """A distribution with entry points in some groups."""
        rng = self.rng
        self.serial += 1
        folder, project = (
            rng.choice(self.folders),
            rng.choice(("dist", "Dist", "di-st", "di_st")) + str(rng.randint(1, 6)),
        )
        lines = []
        groups: dict[str, list[str]] = {}
        for group in rng.sample(GROUPS, rng.randint(1, 4)):
            lines.append(f"[{group}]")
            groups[group] = []
            for name in rng.sample(NAMES, rng.randint(1, 3)):
                written = RENAMED.get(name, name) if self.mend and group == PLATFORM else name
                lines.append(f"{written} = {self.value(group, folder)}")
                groups[group].append(written)
            if rng.random() < 0.03:
                nameless = f" = {self.value(group, folder)}"
                lines += [] if self.mend else [nameless]
        text = "\n".join(lines) + "\n"
        stem = project.replace("-", "_") + f"-{rng.choice(('1.0', '2.0'))}"
        kind = rng.choice((".dist-info",) * 12 + (".egg-info",))
        info = folder / f"{'~' if rng.random() < 0.02 else ''}{stem}{kind}"
        if info.exists():
            return
        info.mkdir()
        if rng.random() > 0.04:
            file = "METADATA" if kind == ".dist-info" else "PKG-INFO"
            (info / file).write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n", "utf-8")
        data = text.encode()
        if self.damage and rng.random() < 0.5:
            data = rng.choice(
                (
                    data + b"no equals sign\n",
                    b"\xef\xbb\xbf" + data,
                    data + b"[bad]\nname = \xff\xfe\n",
                    data.replace(b"[vllm.", b"[ vllm.").replace(b"s]", b"s ]"),
                    data.replace(b"\n", b"\r\n"),
                    b"# a comment\nbefore = any:section\n" + data,
                    data if self.mend else data + data,  # to us a line that stands twice is one plugin
                )
            )
        (info / "entry_points.txt").write_bytes(data)
        self.projects.append(project)
        if data == text.encode() and kind == ".dist-info" and info.name[0] != "~":
            self.sound.append([project, groups])

    def value(self, group: str, folder: Path) -> str:
        """A module of its own for one entry point, and the reference to it."""
        rng = self.rng
        self.serial += 1
        module = f"orc{self.serial}"
        kinds = {PLATFORM: PLATFORMS, ENDPOINT: ENDPOINTS}.get(group, OBJECTS)
        kind = rng.choice(list(kinds) + ["fine"] * 4 if "fine" in kinds else list(kinds))
        mended = MENDED.get("general" if group == GENERAL else group, {})
        if kind in mended and group != PLATFORM:
            self.faulty.append(module)
        source = HEAD + kinds[mended.get(kind, kind) if self.mend else kind]
        if rng.random() < (0.04 if group == LOGITS else 0.12):
            source = HEAD + rng.choice(BROKEN)
            source = source.replace("SystemExit", "ValueError") if self.mend else source
            self.faulty.append(module)
        (folder / f"{module}.py").write_text(source.replace("{id}", module), "utf-8")
        reference = f"{module}:run.inner" if kind == "nested" else f"{module}:run"
        odd = rng.random()
        if odd < 0.02 and group == GENERAL:  # a module cannot be called
            self.faulty.append(module)
            if self.mend:
                with (folder / f"{module}.py").open("a", encoding="utf-8") as stream:
                    stream.write(CALLABLE_MODULE)
            return module
        if odd < 0.02:
            return module
        if odd < 0.04:
            return f"{module}:missing"
        if odd < 0.06:
            return f"{reference} [extra]"
        return f"missing_{module}:run" if odd < 0.08 else reference
