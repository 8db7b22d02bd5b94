"""The differences between our flavour and the standard that `docs/compatibility.md` admits, and nothing else.

`entry_for` gives the entry of that page that a difference of `oracle_compare.py` belongs to.
"""

from __future__ import annotations

from typing import Any

# entry of the page -> what the two answers must look like
ENTRIES = ("malformed-line", "undecodable-byte")


def entry_for(difference: dict[str, Any]) -> str | None:
    """Name the documented entry that explains a difference; None for an unexplained one."""
    return None if difference else ENTRIES[0]
