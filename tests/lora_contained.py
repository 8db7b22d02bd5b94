"""A program: resolves hostile requests from a folder, and tells what became of each and what it opened meanwhile.

Its argument is a JSON file: `folder`, `names` (requests), `races` (pairs of a name below the folder and what is swapped
for it), `rounds` (of a race that is left to chance). Each race is run once for every open of a resolution: the swap
comes just before it. A program of its own, because an audit hook cannot be taken out again.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from lora_lab import BASE, content
from vplug_rs.lora.filesystem import FilesystemResolver
from vplug_rs.lora.refusal import Refusal
from vplug_rs.lora.resolver import Request

START, END = "/vplug-test-start", "/vplug-test-end"  # opened in vain, to be seen in a trace

opened: list[tuple[str, Any, int]] = []
swap: dict[str, Any] = {"at": -1, "make": None}


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in {"open", "os.listdir", "os.scandir"} or isinstance(arguments[0], int):
        return
    path, flags = os.fsdecode(arguments[0]), arguments[2] if event == "open" else 0
    if threading.current_thread() is threading.main_thread():
        if swap["make"] is not None and swap["at"] == 0:
            swap["make"]()
        swap["at"] -= 1
    opened.append((event, path, flags))


def outcome(resolver: FilesystemResolver, name: Any) -> str:
    """The code of the refusal, or what the copy has in its weights: "inside", or what must never be there."""
    try:
        found = resolver.find(Request(name, BASE))
    except Refusal as refusal:
        return refusal.code
    texts = content(found.path)
    return "inside" if all(b"outside" not in text for text in texts.values()) else "OUTSIDE"


def exchange(one: str, other: str) -> None:
    os.rename(one, one + ".aside")
    os.rename(other, one)
    os.rename(one + ".aside", other)


def races(folder: str, pairs: list[tuple[str, str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, path, other in pairs:
        here, there = os.path.join(folder, path), os.path.join(folder, other)
        for at in range(40):
            swap.update(at=at, make=lambda here=here, there=there: exchange(here, there))
            said = outcome(FilesystemResolver(folder), name)
            reached, swap["make"] = swap["at"] < 0, None
            found.setdefault(f"{path} {other}", []).append(said)
            if not reached:
                break
            exchange(here, there)
    return found


def chance(folder: str, pairs: list[tuple[str, str, str]], rounds: int) -> list[str]:
    found = []
    for name, path, other in pairs:
        here, there = os.path.join(folder, path), os.path.join(folder, other)
        stop = threading.Event()

        def shuffle(here: str = here, there: str = there, stop: threading.Event = stop) -> None:
            while not stop.is_set():
                exchange(here, there)
                exchange(here, there)

        thread = threading.Thread(target=shuffle)
        thread.start()
        try:
            found += [outcome(FilesystemResolver(folder), name) for _ in range(rounds)]
        finally:
            stop.set()
            thread.join()
    return found


def marker(path: str) -> None:
    try:
        os.close(os.open(path, os.O_RDONLY))
    except FileNotFoundError:
        return


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    folder = job["folder"]
    warm = outcome(FilesystemResolver(folder), "good")  # imports, and the folder for copies
    assert warm == "inside", warm
    assert outcome(FilesystemResolver(folder), "\0") == "name-control"  # imports a codec
    sys.addaudithook(watch)
    marker(START)
    resolver = FilesystemResolver(folder)
    names = [outcome(resolver, name) for name in job["names"]]
    raced = races(folder, job["races"])
    by_chance = chance(folder, job["races"], job["rounds"])
    marker(END)
    seen = opened[:]
    print(json.dumps({"names": names, "races": raced, "chance": by_chance, "opened": seen}))


if __name__ == "__main__":
    main()
