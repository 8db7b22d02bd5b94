"""Which devices the environment's masks leave visible: torch's grammar for CUDA, and the others'."""

from __future__ import annotations

import pytest

from vplug_rs.platforms import masks
from vplug_rs.platforms.model import Device


def devices(count: int, uuids: bool = True) -> list[Device]:
    return [Device(index, uuid=f"GPU-{'abcdef'[index]}{index}-0000" if uuids else None) for index in range(count)]


def visible(found: list[Device]) -> list[bool | None]:
    return [device.visible for device in found]


def apply_cuda(text: str, found: list[Device]) -> bool:
    return masks.apply(masks.cuda({"CUDA_VISIBLE_DEVICES": text}), found)


# the minimum case list of the specification, then what torch's own source does with the rest
CUDA = [
    (None, None),
    ("", []),
    ("-1", []),
    ("0", [0]),
    ("0,0", []),
    ("0,-1,1", [0]),
    ("1gpu2,2ampere", [1, 2]),
    ("GPU-aa,1", ["GPU-aa"]),
    ("MIG-x", ["MIG-x"]),
    ("NoDevFiles", []),
    ("0, 1", [0, 1]),
    ("1,0", [1, 0]),
    ("+1", [1]),
    ("+", []),
    ("0,,1", [0]),
    ("GPU-aa,GPU-aa", []),
    ("GPU-aa,MIG-bb", ["GPU-aa"]),
    ("MIG-a,MIG-b", ["MIG-a", "MIG-b"]),
    ("0,GPU-aa", [0]),
    ("gpu-aa", []),
    ("٣", []),
    ("9" * 5000, []),
]


@pytest.mark.parametrize(("text", "items"), CUDA, ids=[repr(text)[:24] for text, _ in CUDA])
def test_cuda_reads_its_variable_as_torch_does(text: str | None, items: list[int | str] | None) -> None:
    assert masks.parse_cuda(text) == items


def test_an_unset_variable_is_no_mask() -> None:
    found = devices(2)
    assert masks.cuda({}) == []
    assert masks.apply([], found) is False
    assert visible(found) == [None, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", [True, False, False]),
        ("2,0", [True, False, True]),
        ("0,7,1", [True, False, False]),  # the runtime stops at the first that does not exist
        ("GPU-b1", [False, True, False]),
        ("GPU-b1,GPU-nobody,GPU-c2", [False, True, False]),
        ("GPU-", [False, False, False]),  # too short to tell which
        ("MIG-11111111", [None, None, None]),
        ("MIG-GPU-a0-0000/1/0", [None, None, None]),
    ],
)
def test_a_mask_marks_the_devices(text: str, expected: list[bool | None]) -> None:
    found = devices(3)
    assert apply_cuda(text, found) is (True not in expected and None not in expected)
    assert visible(found) == expected


@pytest.mark.parametrize("text", ["", "-1", "0,0", "NoDevFiles"])
def test_an_empty_list_hides_all_even_where_no_device_is_known(text: str) -> None:
    found = devices(2)
    assert apply_cuda(text, found) is True
    assert visible(found) == [False, False]
    assert apply_cuda(text, []) is True


def test_identifiers_say_nothing_of_devices_without_one() -> None:
    found = devices(2, uuids=False)
    assert apply_cuda("GPU-a0", found) is False
    assert visible(found) == [None, None]


def test_the_same_device_by_two_prefixes_hides_all_as_in_torch() -> None:
    found = devices(2)
    assert apply_cuda("GPU-a,GPU-a0", found) is True
    assert visible(found) == [False, False]


def test_a_mask_of_devices_that_do_not_exist_hides_all() -> None:
    found = devices(2)
    assert apply_cuda("5", found) is True
    assert visible(found) == [False, False]


def test_a_mask_is_data() -> None:
    (mask,) = masks.cuda({"CUDA_VISIBLE_DEVICES": "1,0"})
    assert mask.as_dict() == {"variable": "CUDA_VISIBLE_DEVICES", "text": "1,0", "items": [1, 0]}
    assert mask.numbers and not mask.hides_all


@pytest.mark.parametrize(
    ("environment", "expected", "hidden"),
    [
        ({}, [None, None, None], False),
        ({"HIP_VISIBLE_DEVICES": "1"}, [False, True, False], False),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "0"}, [False, True, False], False),
        ({"ROCR_VISIBLE_DEVICES": "2,1", "HIP_VISIBLE_DEVICES": "0"}, [False, False, True], False),
        ({"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "1"}, [False, False, False], True),
        ({"CUDA_VISIBLE_DEVICES": "2"}, [False, False, True], False),
        ({"CUDA_VISIBLE_DEVICES": ""}, [False, False, False], True),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, [False, False, False], True),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": ""}, [True, False, False], False),
        ({"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "0"}, [False, False, False], True),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "2"}, [True, False, False], False),
        ({"HIP_VISIBLE_DEVICES": ""}, [False, False, False], True),
        ({"HIP_VISIBLE_DEVICES": "-1"}, [False, False, False], True),
        ({"HIP_VISIBLE_DEVICES": "0,0,1"}, [True, False, False], False),
        ({"ROCR_VISIBLE_DEVICES": "GPU-deadbeef"}, [None, None, None], False),
        ({"ROCR_VISIBLE_DEVICES": "GPU-deadbeef", "HIP_VISIBLE_DEVICES": "0"}, [None, None, None], False),
        ({"ROCR_VISIBLE_DEVICES": "GPU-deadbeef", "HIP_VISIBLE_DEVICES": ""}, [False, False, False], True),
    ],
)
def test_rocm_has_two_masks_one_within_the_other(
    environment: dict[str, str], expected: list[bool | None], hidden: bool
) -> None:
    found = devices(3, uuids=False)
    assert masks.apply(masks.rocm(environment), found) is hidden
    assert visible(found) == expected


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("0", [0]),
        ("0,1", [0, 1]),
        ("0.0,0.1", [0]),
        ("1,0", [1, 0]),
        ("", None),
        ("default", None),
        ("-1", None),
        ("x", None),
        (None, None),
    ],
)
def test_level_zero_ignores_what_it_cannot_read(text: str | None, items: list[int] | None) -> None:
    assert masks.parse_ze(text) == items


def test_level_zero_counts_tiles_so_a_number_past_the_cards_tells_nothing() -> None:
    found = devices(2)
    assert masks.apply(masks.xpu({"ZE_AFFINITY_MASK": "0"}), found) is False
    assert visible(found) == [True, False]
    found = devices(2)
    assert masks.apply(masks.xpu({"ZE_AFFINITY_MASK": "3"}), found) is False
    assert visible(found) == [None, None]


@pytest.mark.parametrize(
    ("text", "items"),
    [("0", [0]), ("0, 3", [0, 3]), ("0,0", [0]), ("", None), ("all", None), ("-1", None), ("²", None), (None, None)],
)
def test_tpu_chips_are_plain_numbers(text: str | None, items: list[int] | None) -> None:
    assert masks.parse_tpu(text) == items


def test_tpu_chips_are_marked() -> None:
    found = devices(4)
    assert masks.apply(masks.tpu({"TPU_VISIBLE_CHIPS": "1,2"}), found) is False
    assert visible(found) == [False, True, True, False]
