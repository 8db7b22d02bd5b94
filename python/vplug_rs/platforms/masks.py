"""Which devices the environment leaves visible, read as each runtime reads its own variables.

NVML ignores these variables, and so does vLLM's look at it: a machine whose GPUs are all hidden is a state of its own.
"""

from __future__ import annotations

from vplug_rs.platforms.model import _Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vplug_rs.platforms.model import Device

CUDA, ROCR, HIP, ZE, TPU = (
    "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "TPU_VISIBLE_CHIPS",
)  # fmt: skip
CUDA_ORDER = "CUDA_DEVICE_ORDER"

_DIGITS = "0123456789"  # str.isdigit() takes other alphabets' digits, which no driver does


class Mask(_Record):
    """One variable that hides devices.

    Attributes:
        variable: Its name.
        text: Its value, as it stands there.
        items: What it leaves: numbers, or the beginnings of identifiers, in the order that counts.
    """

    __slots__ = ("variable", "text", "items")  # noqa: RUF023  # the order of the table

    def __init__(self, variable: str, text: str, items: Sequence[int | str]) -> None:
        self.variable, self.text, self.items = variable, text, list(items)

    @property
    def hides_all(self) -> bool:
        """Whether nothing is left, whatever devices there are."""
        return not self.items

    @property
    def numbers(self) -> bool:
        """Whether devices are named by number."""
        return any(isinstance(item, int) for item in self.items)


def parse_cuda(text: str | None) -> list[int | str] | None:
    """CUDA_VISIBLE_DEVICES, in the grammar that torch and the driver share; None where all devices are visible.

    Numbers are read as strtoul does (`1gpu2` is 1). A number twice leaves nothing, a negative one or no number at all
    ends the list. `GPU-` or `MIG-` at the beginning makes it a list of identifiers, which may be cut short.
    """
    if text is None:
        return None
    for prefix in ("GPU-", "MIG-"):
        if text.startswith(prefix):
            return _identifiers(text, prefix)
    items: list[int | str] = []
    for word in text.split(","):
        number = _strtoul(word.strip())
        if number in items:
            return []
        if number < 0:
            break
        items.append(number)
    return items


def _identifiers(text: str, prefix: str) -> list[int | str]:
    items: list[int | str] = []
    for word in text.split(","):
        if word in items:
            return []
        if not word.startswith(prefix):
            break
        items.append(word)
    return items


def _strtoul(word: str) -> int:
    """The number that a word begins with; -1 where there is none."""
    sign = word[:1] in {"+", "-"}
    end = int(sign)
    while end < len(word) and word[end] in _DIGITS:
        end += 1
    # twenty digits are more than any list of devices, and int() refuses some thousands of them
    return int(word[:end]) if int(sign) < end <= 20 else -1  # noqa: PLR2004


def parse_rocm(text: str | None) -> list[int | str] | None:
    """HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES: numbers and `GPU-` identifiers; the first odd one ends the list."""
    if text is None:
        return None
    items: list[int | str] = []
    for part in text.split(","):
        word = part.strip()
        item: int | str = word if word.startswith("GPU-") else _strtoul(word)
        if item in items or (isinstance(item, int) and item < 0):
            break
        items.append(item)
    return items


def parse_ze(text: str | None) -> list[int | str] | None:
    """ZE_AFFINITY_MASK: `0`, `0,1`, `0.1` (a tile of a device); None where it hides nothing that can be told.

    Level Zero takes an empty text and `default` for no mask, and ignores what it cannot read.
    """
    if text is None or text.strip().lower() in {"", "default"}:
        return None
    numbers = [number for part in text.split(",") if (number := _strtoul(part.strip())) >= 0]
    return list(dict.fromkeys(numbers)) or None


def parse_tpu(text: str | None) -> list[int | str] | None:
    """TPU_VISIBLE_CHIPS: numbers; None where it is unset, empty or anything else."""
    words = [part.strip() for part in (text or "").split(",")]
    if not all(word and all(one in _DIGITS for one in word) for word in words):
        return None
    return list(dict.fromkeys(_strtoul(word) for word in words))


def cuda(environment: Mapping[str, str]) -> list[Mask]:
    """The masks of CUDA."""
    return _masks(environment, (CUDA, parse_cuda))


def rocm(environment: Mapping[str, str]) -> list[Mask]:
    """The masks of ROCm, in the order in which they count: the later one numbers what the earlier one has left.

    HIP takes CUDA_VISIBLE_DEVICES where its own variable is not set. An empty one hides all, as torch counts, whose
    devices are what vLLM uses; HIP itself takes it for none at all.
    """
    second = HIP if HIP in environment else CUDA
    return _masks(environment, (ROCR, parse_rocm), (second, parse_rocm))


def xpu(environment: Mapping[str, str]) -> list[Mask]:
    """The mask of Level Zero."""
    return _masks(environment, (ZE, parse_ze))


def tpu(environment: Mapping[str, str]) -> list[Mask]:
    """The mask of libtpu."""
    return _masks(environment, (TPU, parse_tpu))


def _masks(environment: Mapping[str, str], *variables: tuple[str, Parser]) -> list[Mask]:
    found = []
    for name, parse in variables:
        items = parse(environment.get(name))
        if items is not None:
            found.append(Mask(name, environment[name], items))
    return found


def apply(masks: Iterable[Mask], devices: Sequence[Device]) -> bool:
    """Sets each device's `visible`, and says whether all of them are hidden.

    A device stays None where that cannot be told: a MIG identifier names a part of a GPU that the list does not have,
    and an identifier says nothing of devices whose own is not known.
    """
    masks = list(masks)
    if any(mask.hides_all for mask in masks):
        for device in devices:
            device.visible = False
        return True
    left: list[Device] | None = list(devices)
    for mask in masks:
        left = _left(mask, left) if left is not None else None
    if not masks or left is None:
        return False
    kept = {id(device) for device in left}
    for device in devices:
        device.visible = id(device) in kept
    return bool(devices) and not kept


def _left(mask: Mask, devices: list[Device]) -> list[Device] | None:
    """What a mask leaves of devices, in its order; None where that cannot be told."""
    left: list[Device] = []
    for item in mask.items:
        if isinstance(item, int):
            if item >= len(devices):  # the runtime stops at the first that does not exist
                if mask.variable == ZE:  # where each tile counts as a device, there are more than cards
                    return None
                break
            one = devices[item]
        else:
            named = [device for device in devices if _is_named(device, item)]
            if item.startswith("MIG-") or (not named and any(device.uuid is None for device in devices)):
                return None
            if len(named) != 1:  # none, or too short to tell which
                break
            one = named[0]
        if any(one is other for other in left):
            return []
        left.append(one)
    return left


def _is_named(device: Device, beginning: str) -> bool:
    return device.uuid is not None and device.uuid.startswith(beginning)


if TYPE_CHECKING:
    from collections.abc import Callable

    Parser = Callable[[str | None], list[int | str] | None]
