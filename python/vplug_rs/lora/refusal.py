"""Every reason why an adapter is not served, as data: a code, its meaning, and the error that carries it."""

from __future__ import annotations

from vplug_rs.errors import VplugError

_LONGEST_SHOWN = 120

CODES = {
    "name-type": "the name is no text",
    "name-empty": "the name is empty",
    "name-too-long": "the name, or a part of it, is too long, or has too many parts",
    "name-absolute": "the name starts at the root or at a home folder",
    "name-drive": "the name starts with a drive letter",
    "name-backslash": "there is a backslash in the name",
    "name-control": "there is a control character in the name, NUL included",
    "name-empty-part": "nothing stands between two slashes, or after the last one",
    "name-dots": "a part of the name is `.` or `..`",
    "name-hidden": "a part of the name starts with a dot",
    "name-edge": "a part of the name starts with a blank or a dash, or ends with a blank or a dot",
    "name-device": "a part of the name is a device's on some system, such as `NUL` or `COM1.txt`",
    "name-unicode": "the name has invisible or look-alike characters, or is not in its normal form",
    "name-character": "there is a character in the name that is no letter, no number and none of the few signs allowed",
    "folder-unavailable": "the folder of all adapters cannot be opened",
    "not-found": "there is no such adapter",
    "symlink": "something on the way is a symbolic link",
    "not-a-folder": "something on the way is no folder",
    "not-a-file": "a file of the adapter is a folder, a pipe, a socket or a device",
    "unreadable": "a file or folder of the adapter cannot be read",
    "changed": "a file of the adapter changed while it was read",
    "config-missing": "there is no `adapter_config.json`",
    "config-too-large": "`adapter_config.json` is larger than allowed",
    "config-invalid": "`adapter_config.json` is no JSON to be trusted: syntax, encoding, repeated keys, `NaN`, depth",
    "config-key": "a key of `adapter_config.json` is missing, or its value is of the wrong type",
    "peft-type": "`peft_type` is not `LORA`",
    "base-mismatch": "the adapter was made for another base model",
    "weights-missing": "there are no weights that vLLM loads",
    "weights-pickled": "the weights are pickled, and that is not allowed here",
    "weights-too-large": "the weights are larger than allowed",
    "weights-invalid": "the safetensors file is damaged: its header does not fit its length or itself",
    "snapshot-failed": "the private copy could not be written",
    "resolver-failed": "a resolver failed with an error of its own",
}


class Refusal(VplugError):  # noqa: N818  # it is a verdict
    """An adapter is not served; this is why.

    Args:
        code: One of `CODES`.
        message: One sentence that names the thing, with backticks around names and paths.
        hint: The next step.
    """

    exit_status = 1

    def __init__(self, code: str, message: str, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        if code not in CODES:
            raise ValueError(f"`{code}` is no code of a refusal")

    def __repr__(self) -> str:
        return f"<Refusal {self.code}: {self}>"


def shown(value: object) -> str:
    """What somebody else wrote, for a message: cut, in backticks, without anything that steers a terminal."""
    text = value if isinstance(value, str) else repr(value)
    start = text[:_LONGEST_SHOWN]
    seen = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in start)
    return f"`{seen[:_LONGEST_SHOWN]}{'…' if len(seen) > _LONGEST_SHOWN or start != text else ''}`"
