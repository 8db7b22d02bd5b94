"""A sketch as a file: safetensors, whose `codes` start at a multiple of 64 bytes, so that they are used as mapped.

The header is written here and not by `safetensors`, because that library sorts and aligns otherwise; its reader accepts
the file. Data begin with `codes`; the others follow without holes, wider types first, each aligned to its own type.
`__metadata__` holds what `Metadata` holds, as text, and `content`: BLAKE2b over that text and all data.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import mmap
import os
import secrets
import sys
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from vplug_logits import cache, digest
from vplug_logits.config import BITS, CLUSTER_SIZE
from vplug_logits.errors import (
    ArtefactDamagedError,
    ArtefactError,
    ArtefactForeignError,
    ArtefactMissingError,
    BadInputError,
)
from vplug_logits.sketch import BLOCK, LANE, Clusters, Sketch, padded_rows, padded_width

FORMAT = "vplug_logits"
VERSION = 1
ALIGNMENT = 64

_HEADER_LIMIT = 1 << 16  # ours has some 2 KB
_NUMBER_LIMIT = 1 << 31  # of rows and columns
_REBUILD = "Build it again with `vplug-logits build MODEL`."
_NAMES = {
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.int64: "I64",
}


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a file says about itself.

    Attributes:
        bits: As in `Sketch`.
        vocabulary: As in `Sketch`.
        width: As in `Sketch`.
        unit: As in `Sketch`.
        seed: Of the rotation, the calibration and the clusters.
        dtype: The type the head was in: float32, bfloat16 or float16.
        head: `digest.of_head` of it.
        source: The model's name; never a path.
        positions: How many hidden states the metric was made of.
        writer: Who wrote the file, with a version.
    """

    bits: int
    vocabulary: int
    width: int
    unit: float
    seed: int
    dtype: str
    head: str
    source: str
    positions: int
    writer: str


@dataclass(frozen=True, slots=True)
class Artefact:
    """What was read from a file.

    Attributes:
        path: The file.
        sketch: The sketch; its tensors lie in the mapped file where the device is the CPU.
        clusters: The clusters, or None where the file has none.
        digests: int64 `(V,)` on the CPU: `digest.of_rows` of the head.
        states: float32 `(n, d)`: hidden states of the calibration for a self-test, or None.
        metadata: See there.
    """

    path: str
    sketch: Sketch
    clusters: Clusters | None
    digests: torch.Tensor
    states: torch.Tensor | None
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one tensor lies: its type, shape and first byte, counted from the end of the header."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def write(  # noqa: PLR0913  # keywords of a record
    path: str,
    sketch: Sketch,
    *,
    digests: torch.Tensor,
    seed: int,
    dtype: str,
    source: str,
    positions: int,
    clusters: Clusters | None = None,
    states: torch.Tensor | None = None,
    private: bool = True,
) -> None:
    """Write an artefact; the file is there whole or not at all.

    Args:
        path: The file; one that is there is replaced.
        sketch: What to write.
        digests: int64 `(V,)`, `digest.of_rows` of the head.
        seed: As in `Metadata`.
        dtype: As in `Metadata`.
        source: As in `Metadata`.
        positions: As in `Metadata`.
        clusters: Clusters of the same head, or None.
        states: float32 `(n, d)` for the self-test, or None.
        private: Readable by this user alone; else as the process creates files.

    Raises:
        BadInputError: The tensors do not belong together.
        ArtefactError: The file cannot be written; the text has the system's reason.
    """
    metadata = Metadata(
        bits=sketch.bits,
        vocabulary=sketch.vocabulary,
        width=sketch.width,
        unit=sketch.unit,
        seed=seed,
        dtype=dtype,
        head=digest.of_head(digests),
        source=source,
        positions=positions,
        writer=_writer(),
    )
    tensors = _tensors(sketch, clusters, digests, states)
    places = _places(
        metadata,
        clusters=clusters is not None,
        states=None if states is None else states.shape[0],
    )
    for name, place in places.items():
        tensor = tensors.get(name)
        if tensor is None or tensor.dtype != place.dtype or tuple(tensor.shape) != place.shape:
            found = "is missing" if tensor is None else f"is {tensor.dtype} {tuple(tensor.shape)}"
            raise BadInputError(f"{name} {found}; {place.dtype} {place.shape} belongs to this sketch.")
    try:
        _write_whole(path, metadata, places, tensors, private=private)
    except OSError as error:
        next_step = "Name another folder with VPLUG_LOGITS_CACHE or --out."
        raise ArtefactError(path, f"cannot be written: {error.strerror or error}.", next_step=next_step) from error


def read(path: str, *, device: torch.device | str = "cpu") -> Artefact:
    """Read an artefact and check every number of it.

    The file stays mapped as long as a tensor of it lives; replacing it (as `write` does) leaves those as they are, but
    nobody may shorten it in place.

    Args:
        path: The file.
        device: Where the tensors go, except `digests`; on the CPU they stay in the mapped file.

    Raises:
        ArtefactMissingError: There is no such file.
        ArtefactDamagedError: It is truncated, is no artefact, or its numbers contradict each other.
        ArtefactError: It cannot be read; the text has the system's reason.
    """
    if sys.byteorder != "little":
        raise ArtefactError(path, "is little-endian, and this machine is not.")
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            header, begin = _header(path, file.read(8 + _HEADER_LIMIT), size)
            metadata, content = _metadata(path, header.pop("__metadata__", None))
            places = _checked_places(path, header, metadata, begin, size - begin)
            # Copy-on-write: torch takes no read-only buffer without a warning, and nobody writes.
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except FileNotFoundError:
        raise ArtefactMissingError(path, "is not there.", next_step=_REBUILD) from None
    except OSError as error:
        raise ArtefactError(path, f"cannot be read: {error.strerror or error}.") from error
    if len(mapped) != size or _content(metadata, memoryview(mapped)[begin:]) != content:
        raise _damaged(path, "its content is not what was written")
    tensors = {
        name: torch.frombuffer(
            mapped, dtype=place.dtype, count=math.prod(place.shape), offset=begin + place.start
        ).view(place.shape)
        for name, place in places.items()
    }
    _check_values(path, metadata, tensors)
    return _artefact(path, metadata, tensors, torch.device(device))


def check(artefact: Artefact, weight: torch.Tensor, start: int = 0, stop: int | None = None) -> None:
    """Whether an artefact was built of this head, or of the head that these rows are a part of.

    Args:
        artefact: What was read.
        weight: `(rows, d)`: the live rows from `start` on, in any float type.
        start: The first row's id.
        stop: The id after the last row's, rows beyond are padding and not looked at; None: the whole head from `start`
            on, without padding.

    Raises:
        ArtefactForeignError: Another head; says whether its shape, type or how many of its rows differ.
        BadInputError: `start` and `stop` are no part of the vocabulary.
    """
    metadata, may_be_padded = artefact.metadata, stop is not None
    stop = _part(metadata, start, stop)
    fits = weight.dim() == 2 and weight.shape[1] == metadata.width and weight.shape[0] >= stop - start  # noqa: PLR2004
    if not fits or (weight.shape[0] > stop - start and not may_be_padded):
        whose = f"({stop - start}, {metadata.width})"
        raise _foreign(artefact.path, f"was built of a head of shape {whose}, and this one has {tuple(weight.shape)}")
    if weight.dtype not in digest.DTYPES:
        raise _foreign(artefact.path, f"was built of a head in {metadata.dtype}, and this one is in {weight.dtype}")
    differing = int((digest.of_rows(weight, 0, stop - start) != artefact.digests[start:stop]).sum())
    if differing:
        dtype = digest.DTYPES[weight.dtype]
        types = f" (it was in {metadata.dtype}, this one is in {dtype})" if dtype != metadata.dtype else ""
        raise _foreign(artefact.path, f"was built of other weights: {differing} of {stop - start} rows differ{types}")


def shard(artefact: Artefact, start: int, stop: int) -> Sketch:
    """The rows `start` to `stop` as a sketch of their own, numbered from 0.

    Views where both are multiples of 64 (or the end of the vocabulary), else packed anew.

    Args:
        artefact: What was read.
        start: First row.
        stop: Row after the last; a part may be empty.

    Raises:
        BadInputError: They are no part of the vocabulary.
    """
    stop = _part(artefact.metadata, start, stop)
    sketch, rows = artefact.sketch, padded_rows(stop - start)
    if start % BLOCK == 0 and (stop % BLOCK == 0 or stop == sketch.vocabulary):
        codes = sketch.codes[start // BLOCK : start // BLOCK + rows // BLOCK]
        of_row = slice(start, start + rows)
        scale, residual = sketch.scale[of_row], sketch.residual[of_row]
        norm = None if sketch.norm is None else sketch.norm[of_row]
    else:
        codes = _repacked(sketch.codes, start, stop)
        scale, residual = _padded(sketch.scale[start:stop], rows), _padded(sketch.residual[start:stop], rows)
        norm = None if sketch.norm is None else _padded(sketch.norm[start:stop], rows)
    return Sketch(
        bits=sketch.bits,
        vocabulary=stop - start,
        width=sketch.width,
        codes=codes,
        scale=scale,
        residual=residual,
        norm=norm,
        unit=sketch.unit,
        transform=sketch.transform,
        mean=sketch.mean,
    )


def _writer() -> str:
    try:
        return f"{FORMAT} {version(FORMAT)}"
    except PackageNotFoundError:  # run from its folder, not installed
        return FORMAT


def _part(metadata: Metadata, start: int, stop: int | None) -> int:
    stop = metadata.vocabulary if stop is None else stop
    if not 0 <= start <= stop <= metadata.vocabulary:
        raise BadInputError(f"rows {start} to {stop} are no part of a vocabulary of {metadata.vocabulary}.")
    return stop


def _repacked(codes: torch.Tensor, start: int, stop: int) -> torch.Tensor:
    """Rows `start` to `stop` of packed codes as packed codes, padded with zeros."""
    lanes = codes.shape[1]
    first, last = start // BLOCK, -(-stop // BLOCK)
    by_row = codes[first:last].permute(0, 2, 1, 3).reshape(-1, lanes, LANE)[start - first * BLOCK :][: stop - start]
    packed = _padded(by_row, padded_rows(stop - start))
    return packed.view(-1, BLOCK, lanes, LANE).permute(0, 2, 1, 3).contiguous()


def _padded(rows: torch.Tensor, length: int) -> torch.Tensor:
    padded = rows.new_zeros((length, *rows.shape[1:]))
    padded[: rows.shape[0]] = rows
    return padded


def _tensors(
    sketch: Sketch, clusters: Clusters | None, digests: torch.Tensor, states: torch.Tensor | None
) -> dict[str, torch.Tensor | None]:
    return {
        "codes": sketch.codes,
        "digests": digests,
        "mean": sketch.mean,
        "states": states,
        "cluster_members": None if clusters is None else clusters.members,
        "cluster_scale": None if clusters is None else clusters.scale,
        "scale": sketch.scale,
        "residual": sketch.residual,
        "norm": sketch.norm,
        "transform": sketch.transform,
        "cluster_centroids": None if clusters is None else clusters.centroids,
    }


def _places(metadata: Metadata, *, clusters: bool, states: int | None) -> dict[str, _Place]:
    """Where each tensor of a file lies that has clusters or not, and so many states or None."""
    count = -(-metadata.vocabulary // CLUSTER_SIZE)
    rows, width = padded_rows(metadata.vocabulary), metadata.width
    code_bytes = padded_width(width, metadata.bits) * metadata.bits // 8
    wanted: list[tuple[str, torch.dtype, tuple[int, ...]]] = [
        ("codes", torch.uint8, (rows // BLOCK, code_bytes // LANE, BLOCK, LANE)),
        ("digests", torch.int64, (metadata.vocabulary,)),
        ("mean", torch.float32, (width,)),
    ]
    if states is not None:
        wanted.append(("states", torch.float32, (states, width)))
    if clusters:
        wanted += [
            ("cluster_members", torch.int32, (count, CLUSTER_SIZE)),
            ("cluster_scale", torch.float32, (count,)),
        ]
    wanted += [("scale", torch.float16, (rows,)), ("residual", torch.float16, (rows,))]
    if metadata.bits == 8:  # noqa: PLR2004  # see Sketch.norm
        wanted.append(("norm", torch.float16, (rows,)))
    wanted.append(("transform", torch.bfloat16, (width, width)))
    if clusters:
        wanted.append(("cluster_centroids", torch.int8, (count, width)))
    places: dict[str, _Place] = {}
    start = 0
    for name, dtype, shape in wanted:
        places[name] = _Place(dtype, shape, start)
        start += places[name].size
    return places


def _write_whole(
    path: str,
    metadata: Metadata,
    places: dict[str, _Place],
    tensors: dict[str, torch.Tensor | None],
    *,
    private: bool,
) -> None:
    buffers = [_bytes(tensor) for name in places if (tensor := tensors[name]) is not None]
    header = _header_bytes(metadata, places, _content(metadata, *buffers))
    folder = os.path.dirname(os.path.abspath(path))
    temporary = f"{cache.unfinished(path)}{secrets.token_hex(8)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if private else 0o666)
    try:
        with open(descriptor, "wb") as file:
            file.write(header)
            file.writelines(buffers)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _bytes(tensor: torch.Tensor) -> memoryview:
    flat = tensor.detach().to("cpu").contiguous().view(torch.uint8).reshape(-1)
    return flat.numpy().data


def _content(metadata: Metadata, *buffers: memoryview) -> str:
    state = hashlib.blake2b("\0".join(_texts(metadata).values()).encode(), digest_size=16)
    for buffer in buffers:
        state.update(buffer)
    return state.hexdigest()


def _texts(metadata: Metadata) -> dict[str, str]:
    return {name: value if isinstance(value, str) else repr(value) for name, value in asdict(metadata).items()}


def _header_bytes(metadata: Metadata, places: dict[str, _Place], content: str) -> bytes:
    header: dict[str, Any] = {
        "__metadata__": {"format": FORMAT, "version": str(VERSION), **_texts(metadata), "content": content},
    }
    for name, place in places.items():
        offsets = [place.start, place.start + place.size]
        header[name] = {"dtype": _NAMES[place.dtype], "shape": list(place.shape), "data_offsets": offsets}
    text = json.dumps(header, ensure_ascii=True, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _header(path: str, beginning: bytes, size: int) -> tuple[dict[str, Any], int]:
    """The header as data, and where the data begin."""
    if len(beginning) < 8:  # noqa: PLR2004  # bytes of the length
        raise _damaged(path, f"it has {size} bytes, and the length of the header alone takes 8")
    length = int.from_bytes(beginning[:8], "little")
    if length > _HEADER_LIMIT or 8 + length > size:
        raise _damaged(path, f"its header would have {length} bytes, and it has {size}")
    try:
        header = json.loads(beginning[8 : 8 + length], object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"its header is no JSON ({_short(str(error))})") from None
    if not isinstance(header, dict):
        raise _damaged(path, "its header is no JSON object")
    return header, 8 + length


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("a name stands twice")
    return dict(pairs)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _metadata(path: str, said: object) -> tuple[Metadata, str]:
    """What the header says about the file, and the digest of its data."""
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise _damaged(path, "it is no artefact of this package")
    if said.get("version") != str(VERSION):
        version = _short(repr(said.get("version")))
        raise _damaged(path, f"it has version {version} of the format, and this package reads {VERSION}")
    values: dict[str, Any] = {}
    for field in fields(Metadata):
        text = said.get(field.name)
        if not isinstance(text, str):
            raise _damaged(path, f"its metadata lack {field.name}")
        try:
            values[field.name] = {"int": int, "float": float, "str": str}[str(field.type)](text)
        except ValueError:
            raise _damaged(path, f"its metadata have {_short(repr(text))} for {field.name}") from None
    metadata = Metadata(**values)
    sound = {
        "bits": metadata.bits in BITS,
        "vocabulary": 0 < metadata.vocabulary < _NUMBER_LIMIT,
        "width": 0 < metadata.width < _NUMBER_LIMIT,
        "unit": _is_unit(metadata.unit),
        "seed": abs(metadata.seed) < 1 << 64,
        "dtype": metadata.dtype in digest.DTYPES.values(),
        "positions": metadata.positions >= 0,
    }
    for name, is_sound in sound.items():
        if not is_sound:
            raise _damaged(path, f"its metadata have {_short(str(values[name]))} for {name}")
    return metadata, str(said.get("content"))


def _is_unit(number: float) -> bool:
    """Whether it is a power of two, and float32 holds float16 multiples of it."""
    mantissa, exponent = math.frexp(number)
    return mantissa == 0.5 and -125 <= exponent <= 112  # noqa: PLR2004


def _checked_places(path: str, header: dict[str, Any], metadata: Metadata, begin: int, size: int) -> dict[str, _Place]:
    """The places this file must have, and has: every name, type, shape and offset, and nothing else."""
    places = _places(metadata, clusters="cluster_members" in header, states=_states(path, header))
    if set(places) != set(header):
        odd = ", ".join(sorted(set(places) ^ set(header)))
        raise _damaged(path, f"its tensors are not those of an artefact: {_short(odd)}")
    end = 0
    for name, place in places.items():
        offsets = [place.start, place.start + place.size]
        if header[name] != {"dtype": _NAMES[place.dtype], "shape": list(place.shape), "data_offsets": offsets}:
            said = _short(json.dumps(header[name]))
            raise _damaged(path, f"{name} is {said}; {_NAMES[place.dtype]} {list(place.shape)} belongs at {offsets}")
        end = offsets[1]
    if begin % ALIGNMENT:
        raise _damaged(path, f"its data do not begin at a multiple of {ALIGNMENT} bytes")
    if end != size:
        raise _damaged(path, f"its data have {size} bytes, and {end} belong there")
    return places


def _states(path: str, header: dict[str, Any]) -> int | None:
    """How many states the file says it has."""
    if "states" not in header:
        return None
    shape = header["states"].get("shape") if isinstance(header["states"], dict) else None
    if isinstance(shape, list) and shape and type(shape[0]) is int and 0 < shape[0] < _NUMBER_LIMIT:
        return shape[0]
    raise _damaged(path, f"states has the shape {_short(repr(shape))}")


def _check_values(path: str, metadata: Metadata, tensors: dict[str, torch.Tensor]) -> None:
    """Numbers that no sketch has: the file was not written by this package, whatever its digest says."""
    for name in ("scale", "residual", "norm", "cluster_scale"):
        values = tensors.get(name)
        if values is not None and not bool((values.isfinite() & (values >= 0)).all()):
            raise _damaged(path, f"{name} has a value that is negative or not finite")
    for name in ("transform", "mean", "states"):
        values = tensors.get(name)
        if values is not None and not bool(values.isfinite().all()):
            raise _damaged(path, f"{name} has a value that is not finite")
    if bool(tensors["scale"][metadata.vocabulary :].any()):
        raise _damaged(path, "rows after the vocabulary have a scale")
    if digest.of_head(tensors["digests"]) != metadata.head:
        raise _damaged(path, "the digests of its rows are not those of its head")
    members = tensors.get("cluster_members")
    if members is not None and not _is_partition(members, metadata.vocabulary):
        raise _damaged(path, "its clusters do not hold each row once")


def _is_partition(members: torch.Tensor, vocabulary: int) -> bool:
    ids = members[members != -1].long()
    if ids.numel() != vocabulary or int(ids.min()) < 0 or int(ids.max()) >= vocabulary:
        return False
    return bool((torch.bincount(ids, minlength=vocabulary) == 1).all())


def _artefact(path: str, metadata: Metadata, tensors: dict[str, torch.Tensor], device: torch.device) -> Artefact:
    digests = tensors.pop("digests")
    placed = {name: tensor.to(device) for name, tensor in tensors.items()}
    sketch = Sketch(
        bits=metadata.bits,
        vocabulary=metadata.vocabulary,
        width=metadata.width,
        codes=placed["codes"],
        scale=placed["scale"],
        residual=placed["residual"],
        norm=placed.get("norm"),
        unit=metadata.unit,
        transform=placed["transform"],
        mean=placed["mean"],
    )
    clusters = None
    if "cluster_members" in placed:
        clusters = Clusters(
            CLUSTER_SIZE, placed["cluster_members"], placed["cluster_centroids"], placed["cluster_scale"]
        )
    return Artefact(path, sketch, clusters, digests, placed.get("states"), metadata)


def _damaged(path: str, reason: str) -> ArtefactDamagedError:
    return ArtefactDamagedError(path, f"{reason}.", next_step=_REBUILD)


def _foreign(path: str, reason: str) -> ArtefactForeignError:
    return ArtefactForeignError(path, f"{reason}.", next_step=_REBUILD)


def _short(text: str, limit: int = 80) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."
