from __future__ import annotations

from pathlib import Path

import pytest
import torch

import heads
from models import tiny, tiny_folder
from vplug_logits import artefact, build, digest
from vplug_logits.config import Config
from vplug_logits.errors import ArtefactError, BadInputError, BuildError, LogitsError, UnsupportedHeadError
from vplug_logits.layout import unpack
from vplug_logits.metric import rows_through, second_moment
from vplug_logits.reference import sketch as reference
from vplug_logits.sketch import Sketch

TENSORS = ("codes", "scale", "residual", "norm", "transform", "mean")


def equal(one: Sketch, other: Sketch) -> bool:
    pairs = [(getattr(one, name), getattr(other, name)) for name in TENSORS]
    return one.unit == other.unit and all(a is b is None or torch.equal(a, b) for a, b in pairs)


def moment(width: int) -> torch.Tensor:
    return second_moment([heads.hidden(400, width)])


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize(("vocabulary", "width"), [(1, 1), (63, 8), (64, 16), (1000, 33), (257, 7)])
def test_a_streamed_sketch_is_the_one_built_in_memory(bits: int, vocabulary: int, width: int) -> None:
    weight, states = heads.head(vocabulary, width), heads.hidden(400, width)
    assert equal(build.build(weight, moment(width), bits), heads.sketch_of(weight, states, bits))


@pytest.mark.parametrize("bits", [1, 8])
def test_blocks_join_without_a_seam(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = heads.head(1000, 20).to(torch.bfloat16)
    whole = build.build(weight, moment(20), bits)
    monkeypatch.setattr(build, "_BLOCK_NUMBERS", 1)  # 64 rows
    streamed = build.build(weight, moment(20), bits)
    # Sums in another order move T by its last bit at most, if at all; here they do not.
    assert torch.equal(streamed.transform, whole.transform)
    codes = [unpack(sketch.codes, bits, 20)[:1000].int() for sketch in (streamed, whole)]
    assert (codes[0] - codes[1]).abs().max() <= 1 and (codes[0] != codes[1]).float().mean() < 1e-3


@pytest.mark.parametrize("bits", [1, 2, 8])
def test_the_same_head_and_seed_give_the_same_bytes(bits: int) -> None:
    weight = heads.head(500, 24)
    one, same, other = (build.build(weight, moment(24), bits, seed=seed) for seed in (0, 0, 1))
    assert equal(one, same) and not torch.equal(one.transform, other.transform)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_no_row_is_further_from_its_code_than_its_residual_says(bits: int, dtype: torch.dtype) -> None:
    weight = heads.head(700, 30).to(dtype)
    sketch = build.build(weight, moment(30), bits)
    rows = rows_through(weight, sketch.mean, sketch.transform)
    levels = unpack(sketch.codes, bits, 30)[:700].double() - (2**bits - 1) / 2
    coded = levels * sketch.scale[:700, None].double() * sketch.unit
    residual = torch.linalg.vector_norm(coded - rows, dim=1)
    said = sketch.residual[:700].double() * sketch.unit
    assert bool((residual <= said).all()) and bool((said <= residual * 1.01 + 1e-9).all())


@pytest.mark.parametrize(("bits", "share"), [(1, 0.4), (2, 0.2), (4, 0.05), (8, 0.003)])
def test_estimates_come_close_to_the_logits(bits: int, share: float) -> None:
    weight, states = heads.head(2000, 48), heads.hidden(50, 48, seed=9)
    sketch = build.build(weight, moment(48), bits)
    truth = states.double() @ weight.double().T
    error = reference.estimates(sketch, states)[0] - truth
    assert float(error.std() / truth.std()) < share


def test_rows_of_zeros_and_equal_rows_are_coded() -> None:
    weight = torch.zeros(100, 16)
    weight[50:] = 1.0
    sketch = build.build(weight, moment(16), 2)
    for name in ("scale", "residual", "transform", "mean"):
        assert bool(getattr(sketch, name).isfinite().all())
    estimates = reference.estimates(sketch, torch.ones(1, 16))[0]
    assert float(estimates[0, :50].abs().max()) < 1 and float(estimates[0, 50:].min()) > 15


def test_any_strides_give_the_same_sketch() -> None:
    weight = heads.head(200, 24)
    turned = weight.T.contiguous().T
    assert equal(build.build(turned, moment(24), 2), build.build(weight, moment(24), 2))


def test_the_weight_is_not_touched_and_needs_no_gradient() -> None:
    weight = torch.nn.Parameter(heads.head(200, 24))
    before = weight.detach().clone()
    sketch = build.build(weight, moment(24), 2)
    assert torch.equal(weight.detach(), before) and not sketch.mean.requires_grad


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
def test_rows_that_are_not_finite_are_told(wrong: float) -> None:
    weight = heads.head(200, 24)
    weight[[77, 120], 3] = wrong
    with pytest.raises(BadInputError, match="NaN or infinity in 2 rows or more, as in 77"):
        build.build(weight, moment(24), 2)


@pytest.mark.parametrize(
    "weight",
    [torch.zeros(5), torch.zeros(0, 4), torch.zeros(4, 0), torch.zeros(4, 4, dtype=torch.int8), torch.zeros(2, 2, 2)],
)
def test_what_is_no_head_has_no_sketch(weight: torch.Tensor) -> None:
    with pytest.raises(BadInputError, match="has no sketch"):
        build.build(weight, moment(4), 2)


def test_states_of_another_width_are_refused() -> None:
    with pytest.raises(BadInputError, match="width 24"):
        build.build(heads.head(50, 24), moment(23), 2)


def test_codes_of_three_bits_are_refused() -> None:
    with pytest.raises(LogitsError):
        build.build(heads.head(50, 24), moment(24), 3)


def test_progress_tells_each_step_to_its_end() -> None:
    steps: list[tuple[str, int, int]] = []
    build.build(heads.head(200, 24), moment(24), 2, progress=lambda *step: steps.append(step))
    assert steps == [("mean", 200, 200), ("moments", 200, 200), ("codes", 200, 200)]


def peak() -> float:
    """The largest resident size of this process since the last reset, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def test_building_takes_no_second_copy_of_the_head() -> None:
    weight = torch.empty(200_000, 160, dtype=torch.bfloat16).normal_()
    build.build(weight[:20_000], torch.eye(160).double(), 1)  # what libraries take once
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = peak()
    build.build(weight, torch.eye(160).double(), 1)
    # The head has 61 MB in bfloat16 and 244 MB in float64; the codes have 4 MB, four numbers of each row 6 MB.
    assert peak() - before < 61


# A whole model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny-model")


@pytest.mark.parametrize("mode", ["exact", "clusters"])
def test_the_artefact_of_a_model_is_of_its_head(folder: str, tmp_path: Path, mode: str) -> None:
    out = str(tmp_path / "a")
    config = Config.of(mode)
    build.build_model(folder, config, dtype="bfloat16", out=out, seed=2)
    read = artefact.read(out)
    weight = tiny().lm_head.weight.detach()
    artefact.check(read, weight)
    said = read.metadata
    assert (said.bits, said.vocabulary, said.width, said.seed) == (config.bits, 300, 32, 2)
    assert (said.dtype, said.source, said.positions) == ("bfloat16", "tiny-model", 1536)
    assert read.states is not None and read.states.shape == (64, 32)
    assert (read.clusters is not None) == (mode == "clusters")
    estimates = reference.estimates(read.sketch, read.states)[0]
    truth = read.states.double() @ weight.double().T
    assert float((estimates - truth).std() / truth.std()) < 0.4


def test_the_same_model_gives_the_same_file(folder: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        build.build_model(folder, Config.of("safe"), dtype="float32", out=str(tmp_path / name))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_artefact_of_a_narrow_checkpoint_serves_the_wide_head_too(folder: str, tmp_path: Path) -> None:
    out = str(tmp_path / "a")
    build.build_model(folder, Config.of("safe"), dtype="bfloat16", out=out)
    artefact.check(artefact.read(out), build.head_weight(build.load(folder, dtype="float32")))


def test_weights_that_are_not_finite_are_told_with_the_model(tmp_path: Path) -> None:
    model = tiny(tied=False)
    model.lm_head.weight.data[5, 5] = float("nan")
    model.save_pretrained(tmp_path / "broken")
    with pytest.raises(BuildError, match=r"broken: the head has NaN or infinity in 1 rows or more, as in 5"):
        build.build_model(str(tmp_path / "broken"), Config.of("safe"), dtype="bfloat16", out=str(tmp_path / "a"))
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("model", ["no/such-model", "/no/such/folder"])
def test_a_model_that_is_not_there_is_told(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(BuildError, match=f"{model}: transformers cannot load it") as raised:
        build.load(model, dtype="float32")
    assert "nothing is downloaded" in str(raised.value)


def test_a_folder_that_is_no_model_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(BuildError, match="Its folder is there"):
        build.load(str(tmp_path), dtype="float32")


def test_a_head_with_a_bias_or_of_integers_is_refused() -> None:
    class Model:
        def __init__(self, head: object) -> None:
            self.head = head

        def get_output_embeddings(self) -> object:
            return self.head

    with pytest.raises(UnsupportedHeadError, match="bias"):
        build.head_weight(Model(torch.nn.Linear(4, 9)))
    with pytest.raises(UnsupportedHeadError, match="no output embeddings"):
        build.head_weight(Model(None))
    packed = torch.nn.Linear(4, 9, bias=False)
    packed.weight = torch.nn.Parameter(torch.zeros(9, 2, dtype=torch.uint8), requires_grad=False)
    with pytest.raises(UnsupportedHeadError, match=r"torch\.uint8 \(9, 2\)"):
        build.head_weight(Model(packed))


def test_a_file_that_cannot_be_written_is_told(folder: str, tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="cannot be written"):
        build.build_model(folder, Config.of("safe"), dtype="float32", out=str(tmp_path / "none" / "a"))


def test_digests_are_those_of_the_served_type(folder: str, tmp_path: Path) -> None:
    out = str(tmp_path / "a")
    build.build_model(folder, Config.of("safe"), dtype="float16", out=out)
    weight = build.head_weight(build.load(folder, dtype="float16"))
    assert torch.equal(artefact.read(out).digests, digest.of_rows(weight))
