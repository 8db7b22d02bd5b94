"""The OpenAI server of a real vLLM as a child of a test."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def words(model: Path, port: int, *more: str) -> list[str]:
    """The command line of a small server on loopback."""
    module = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    address = ["--host", "127.0.0.1", "--port", str(port)]
    small = ["--enforce-eager", "--dtype", "float32", "--max-model-len", "256", "--max-num-seqs", "8"]
    return [*module, *address, *small, *more]


class Server:
    """A server that is up.

    Args:
        folder: Where it runs, and writes its log.
        command: Its command line for a port.
        env: Its environment.
    """

    def __init__(self, folder: Path, command: Callable[[int], list[str]], env: dict[str, str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.folder, self.base = folder, f"http://127.0.0.1:{port}"
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command(port), cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        end = time.monotonic() + 240
        while not self._is_up():
            assert self._process.poll() is None, self.log
            assert time.monotonic() < end, self.log
            time.sleep(0.3)

    def _is_up(self) -> bool:
        try:
            self.ask("/health")
        except (urllib.error.URLError, OSError):
            return False
        return True

    @property
    def log(self) -> str:
        """What it wrote so far."""
        return (self.folder / "log").read_text("utf-8", "replace")

    def ask(self, path: str, body: Any = None) -> str:
        """What it answers."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            text: str = answer.read().decode()
        return text

    def stop(self) -> None:
        """Stop it as a user does."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
