from __future__ import annotations

from pathlib import Path

from sketches import any_clusters, any_sketch, digests
from vplug_logits import artefact
from vplug_logits.cli import COMMANDS
from vplug_logits.config import VARIABLES
from vplug_logits.counters import REASONS

README = (Path(__file__).parent.parent / "README.md").read_text()


def section(title: str) -> str:
    return README.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_readme_has_every_variable_as_it_is_read() -> None:
    rows = [line for line in section("Settings").splitlines() if line.startswith("| `")]
    assert rows == [f"| `{one.name}` | {one.values} | {one.unset} | {one.meaning} |" for one in VARIABLES]


def test_the_readme_has_every_reason_for_a_dense_answer() -> None:
    rows = [line for line in section("Counters").splitlines() if line.startswith("| `")]
    wanted = [f"| `{slug}` | {sentence} |" for slug, sentence in REASONS.items()]
    assert rows[-len(wanted) :] == wanted


def test_the_readme_shows_every_command_about_artefacts() -> None:
    shown = [line.split()[1] for line in section("Artefacts").splitlines() if line.startswith("    vplug-logits")]
    assert set(shown) <= set(COMMANDS) and {"build", "inspect", "check"} <= set(shown)


def test_the_readme_names_the_tensors_of_a_file_in_their_order(tmp_path: Path) -> None:
    from safetensors import safe_open

    path = str(tmp_path / "a")
    artefact.write(
        path,
        any_sketch(20, 8, 8),
        digests=digests(20, 8),
        seed=0,
        dtype="bfloat16",
        source="m",
        positions=1,
        clusters=any_clusters(20, 8),
        states=any_sketch(20, 8, 8).mean[None],
    )
    with safe_open(path, framework="pt") as file:
        names = list(file.offset_keys())
    words = " ".join(section("Artefacts").split()).partition("bytes: ")[2]
    assert [name for name in words.replace("`", " ").replace(",", " ").split() if name in names][: len(names)] == names
