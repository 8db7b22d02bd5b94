"""The named hints: what to run or to change, for each condition that has a known cure.

A hint is data: its condition says when it is given, its advice is one sentence with fields in braces. The name is the
interface, the sentence is not.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


HINTS: dict[str, tuple[str, str]] = {
    "driver-not-loaded": (
        "NVML error 9: the library is here, the kernel module is not loaded",
        (
            "load the kernel module with `sudo modprobe nvidia`, or install the driver again for the running kernel "
            "(`dmesg | grep -i nvidia` says why it is not loaded)"
        ),
    ),
    "nouveau": (
        "an NVIDIA GPU that the driver nouveau serves",
        "install NVIDIA's own driver: nouveau serves the GPU now, and CUDA cannot use it",
    ),
    "container-without-runtime": (
        "NVML error 12, and a GPU or its kernel driver is seen: a container started without the NVIDIA runtime",
        (
            "start the container with `--gpus all` or `--runtime=nvidia` (it needs NVIDIA's container toolkit), "
            "or put the folder that holds libnvidia-ml.so.1 on LD_LIBRARY_PATH"
        ),
    ),
    "library-missing": (
        "NVML error 12, and nothing of a kernel driver is seen",
        "install the NVIDIA driver; its package brings libnvidia-ml.so.1",
    ),
    "driver-too-old": (
        "NVML error 13: the library lacks a function",
        "update the NVIDIA driver, or take a stub of libnvidia-ml.so.1 off LD_LIBRARY_PATH",
    ),
    "no-permission": (
        "NVML error 4, or no device node can be opened",
        (
            "let this user open the nodes: `ls -l {nodes}` shows who may; join that group, or give the container the "
            "devices"
        ),
    ),
    "cgroup": (
        "NVML error 17 or 999, or nodes that a device cgroup refuses: most often a container that has lost the GPUs",
        (
            "recreate the container: a `systemctl daemon-reload` on the host takes its nodes away, unless they were "
            "given with `--device` or through CDI"
        ),
    ),
    "driver-mismatch": (
        "NVML error 18, or the versions of the kernel module and of the library differ",
        (
            "reload the nvidia kernel modules or reboot, so that kernel module {kernel} and library {library} become "
            "the same; in a container, recreate it"
        ),
    ),
    "gpu-lost": (
        "NVML error 15, or a GPU that is counted and does not answer",
        "look for an Xid with `dmesg | grep -i xid`, then reset the GPU with `sudo nvidia-smi --gpu-reset` or reboot",
    ),
    "reset-required": (
        "NVML error 16",
        "end all programs that use the GPU and reset it with `sudo nvidia-smi --gpu-reset`, or reboot",
    ),
    "driver-error": (
        "any other NVML error",
        "run `nvidia-smi` and `dmesg | grep -i -e nvrm -e xid`: the driver refuses, and these say more",
    ),
    "timeout": (
        "the driver did not answer in time",
        (
            "turn persistence mode on (`sudo nvidia-smi -pm 1`), or give the driver more than {seconds:g} s with "
            "VPLUG_PROBE_TIMEOUT"
        ),
    ),
    "crash": (
        "the process that asked the driver has died",
        (
            "run `nvidia-smi`: if that dies too, reinstall the driver; if not, look for another libnvidia-ml.so.1 on "
            "LD_LIBRARY_PATH"
        ),
    ),
    "no-answer": (
        "the process that asked the driver wrote something else, or could not be started",
        "see that `sys.executable` starts by itself and that nothing around it prints: a process of its own asks",
    ),
    "frozen": (
        "a frozen program (PyInstaller and the like), which has no interpreter to start for a process of its own",
        (
            "name the platform with VPLUG_PLATFORM, or let files alone decide with VPLUG_PROBE_TIMEOUT=0: a frozen "
            "program has no interpreter that could ask"
        ),
    ),
    "no-gpu-given": (
        "a GPU is on the PCI bus, and NVML counts none, or it is set aside for a virtual machine",
        "give the container its GPUs (`--gpus all`, NVIDIA_VISIBLE_DEVICES), or take them back from vfio-pci",
    ),
    "pynvml-shadowed": (
        "a folder `pynvml` comes before NVIDIA's file `pynvml.py` on the path",
        (
            "remove the package that owns {folder} and `pip install nvidia-ml-py`: programs that import pynvml get the "
            "wrong one"
        ),
    ),
    "masked": (
        "the environment hides every device",
        "unset {variable}, or name devices that exist in it (now it is {text!r})",
    ),
    "mig-without-instance": (
        "the environment names a MIG instance, and no GPU has one",
        (
            "create instances with `sudo nvidia-smi mig -cgi <profile> -C` and name one of those that "
            "`nvidia-smi -L` lists, or unset {variable}"
        ),
    ),
    "wsl": (
        "WSL, and no vendor's driver answers",
        (
            "install the GPU's WSL driver on Windows, run `wsl --update`, and see that /usr/lib/wsl/lib is searched "
            "for libraries"
        ),
    ),
    "wsl-not-asked": (
        "WSL by its files alone: they tell of a GPU, and not whose it is",
        (
            "ask the driver inside that WSL, with `vplug doctor --platform` and neither --passive nor a time of 0; "
            "only it knows whose GPU Windows lends"
        ),
    ),
    "amdsmi-missing": (
        "an AMD GPU or /dev/kfd is seen, and the module amdsmi is not found",
        (
            "`pip install amdsmi` in the version of the ROCm here (or install /opt/rocm/share/amd_smi): vLLM itself "
            "asks for the GPU through it"
        ),
    ),
    "amdgpu-not-loaded": (
        "an AMD GPU is on the PCI bus or in the list of the kernel, and /dev/kfd is missing",
        (
            "load the kernel module with `sudo modprobe amdgpu`; in a container, start it with `--device /dev/kfd "
            "--device /dev/dri`"
        ),
    ),
    "kfd-without-gpu": (
        "/dev/kfd is there, and the kernel's list has no GPU",
        (
            "look into /sys/class/kfd/kfd/topology/nodes: where it is missing, mount /sys into the container; where it "
            "lists processors only, the driver knows no GPU (`dmesg | grep -i amdgpu`)"
        ),
    ),
    "render-node": (
        "a GPU's render node or /dev/kfd cannot be opened by this user",
        (
            "let this user open {node}: join its group (`ls -l {node}`; most often render or video), and start a "
            "container with `--device /dev/kfd --device /dev/dri --group-add video`"
        ),
    ),
    "torch-build": (
        "a device is here, and the installed torch is built for something else",
        "install a torch, and a vLLM, built for {wanted}: this one ({version}) is built for {kind}",
    ),
    "tpu-inference-missing": (
        "a TPU is here and vLLM is installed, and tpu_inference is not",
        "`pip install tpu-inference`: vLLM takes its TPU platform from there",
    ),
    "cpu-build": (
        "a GPU is here, and the installed vLLM is a build for CPUs",
        "install a vLLM built for this GPU; {distribution} {version} runs on the CPU only",
    ),
    "out-of-tree": (
        "hardware whose platform vLLM does not bring along",
        "install vLLM's plugin for it ({plugin})",
    ),
    "plugin-failed": (
        "a platform plugin could not be imported, its call failed, or its answer names no class",
        "mend or uninstall {owner}; `vplug why {name} --load` shows all of it",
    ),
    "plugin-kept-out": (
        "no platform counts, and VLLM_PLUGINS (or the policy) keeps a platform plugin out",
        "name `{name}` of {owner} there with all other plugins that are wanted, if it is meant: {rule}",
    ),
}
"""Name -> (condition, advice)."""

NEVER_STARTED = {"not started": "no-answer", "frozen": "frozen"}
"""How a process ended that never began (`isolated.NOT_STARTED`, `isolated.FROZEN`), and the hint that it gets."""


def advise(name: str, /, **values: Any) -> str:
    """The advice of a named hint.

    Args:
        name: A name of `HINTS`.
        **values: The fields of its sentence.

    Raises:
        KeyError: There is no such hint, or a field is missing.
    """
    return HINTS[name][1].format(**values)
