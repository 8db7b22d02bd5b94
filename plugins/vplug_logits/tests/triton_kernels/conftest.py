"""Kernels under Triton's interpreter, which has to be chosen before Triton is imported: in a process of its own.

`test_kernels_triton.py` starts it.  By hand: TRITON_INTERPRET=1 python -m pytest tests/triton_kernels
"""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["test_*.py"]
