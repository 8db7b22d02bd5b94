"""The GPU that Windows lends, for platforms whose driver nobody asks there: the installed torch tells whose it is."""

from __future__ import annotations

from vplug_rs.platforms.model import ABSENT, PRESENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from vplug_rs.platforms.judges.context import Case
    from vplug_rs.platforms.masks import Mask
    from vplug_rs.platforms.model import Probe


def judge(case: Case, called: str, *, qualname: str, hiding: Sequence[Mask]) -> Probe:
    """The judgement on a platform of which `/dev/dxg` is all that is seen.

    Args:
        case: The platform's.
        called: What torch's build for it is called in a sentence.
        qualname: Its class.
        hiding: Its masks.
    """
    torch, vllm = case.context.torch, case.context.vllm
    if torch is None or torch.kind != case.platform:
        built = f"torch is built for {torch.kind}" if torch else "there is no torch to tell"
        return case.close(ABSENT, f"a GPU under WSL that may be anyone's: {built}")
    if vllm is not None and vllm.is_cpu:
        return case.close(ABSENT, f"{vllm.distribution} {vllm.version} is a build for CPUs")
    reason = f"a GPU under WSL, and torch is built for {called}"
    return case.close(PRESENT, reason, qualname=qualname, hiding=hiding)
