"""What the tests share: seeds, small heads."""

from __future__ import annotations

pytest_plugins = ("smollm2",)
