"""The minimum list of machines, as data; `platform_lab` builds them."""

from __future__ import annotations

from platform_lab import Case

CUDA, CPU = "vllm.platforms.cuda.CudaPlatform", "vllm.platforms.cpu.CpuPlatform"
ROCM, XPU = "vllm.platforms.rocm.RocmPlatform", "vllm.platforms.xpu.XPUPlatform"
TPU, ZEN = "vllm.platforms.tpu.TpuPlatform", "vllm.platforms.zen_cpu.ZenCpuPlatform"
PATHWAYS = "tpu_inference.platforms.tpu_platform.TpuPlatform"
H100 = "nvidia-h100x8"
SEEN = ("cuda.pci", "cuda.node")


def nvml(name: str, status: str, exit: int, *, variant: str | None = "full", **more: object) -> Case:  # noqa: A002
    """A machine with eight GPUs, whose driver library answers as told."""
    here = status in {"present", "masked"}
    return Case(
        name,
        root=H100,
        nvml=variant,
        status={"cuda": status, "rocm": "absent", "xpu": "absent", "tpu": "absent"},
        platform="cuda" if here else None,
        qualname=CUDA if here else None,
        exit=exit,
        evidence=(*SEEN, "cuda.nvml"),
        **more,  # type: ignore[arg-type]
    )


NVML = [
    nvml("no library", "absent", 3, variant=None, texts=("NVIDIA",)),
    nvml("count 0", "absent", 1, fake={"COUNT": "0"}),
    nvml("count 2", "present", 0, fake={"COUNT": "2"}, devices=2),
    nvml("count 8", "present", 0, fake={"COUNT": "8"}, devices=8),
    *(
        nvml(f"init {code}", "absent", 3, fake={"RC_nvmlInitWithFlags": code, "RC_nvmlInit_v2": code})
        for code in ("4", "9", "12", "18")
    ),
    *(
        nvml(f"init {code}", "unknown", 3, fake={"RC_nvmlInitWithFlags": code, "RC_nvmlInit_v2": code})
        for code in ("15", "16", "17", "23", "999")
    ),
    nvml("count error", "unknown", 3, fake={"RC_nvmlDeviceGetCount_v2": "999"}),
    nvml("shutdown error", "present", 0, fake={"COUNT": "1", "RC_nvmlShutdown": "999"}, devices=1),
    nvml("first lost", "present", 0, fake={"COUNT": "3", "LOST": "0"}, devices=3),
    nvml("middle lost", "present", 0, fake={"COUNT": "3", "LOST": "1"}, devices=3),
    # they are there, and nothing can run: as with a driver that hangs
    nvml(
        "all lost",
        "present",
        3,
        fake={"COUNT": "2", "LOST": "all"},
        devices=2,
        texts=("cuda.all-lost", "none that may be used answers", "dmesg"),
    ),
    nvml("memory not supported", "present", 0, fake={"COUNT": "1", "RC_nvmlDeviceGetMemoryInfo": "3"}, devices=1),
    nvml("name not supported", "present", 0, fake={"COUNT": "1", "RC_nvmlDeviceGetName": "3"}, devices=1),
    nvml("old driver", "present", 0, variant="no-flags", fake={"COUNT": "1"}, devices=1),
    nvml("no init symbol", "absent", 3, variant="no-init"),
    nvml("without pynvml", "present", 0, fake={"COUNT": "2"}, devices=2, pynvml=False),
    nvml("shadowed pynvml", "present", 0, fake={"COUNT": "2"}, devices=2, modules=("pynvml-shadow",)),
    *(
        nvml(f"hang in {call}", "unknown", 3, fake={"HANG": call}, seconds=1.0, texts=("did not answer",))
        for call in ("nvmlInitWithFlags", "nvmlDeviceGetCount_v2")
    ),
    # what was counted is known; but a driver that hangs is broken
    *(
        nvml(
            f"hang in {call}",
            "present",
            3,
            fake={"COUNT": "2", "HANG": call},
            seconds=1.0,
            devices=2,
            texts=("did not answer", "cuda.cut-short"),
        )
        for call in ("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetName", "nvmlShutdown")
    ),
    *(
        nvml(
            f"exit in {call}",
            "present",
            3,
            fake={"COUNT": "1", "EXIT": call},
            devices=1,
            texts=("ended with exit status 3", "cuda.cut-short", "nvidia-smi"),
            absent=("cuda.all-lost",),
        )
        for call in ("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetName", "nvmlShutdown")
    ),
    nvml("hang in dlopen", "unknown", 3, fake={"HANG": "dlopen"}, seconds=1.0),
    nvml("crash in dlopen", "unknown", 3, fake={"CRASH": "dlopen"}),
    *(
        nvml(f"crash in {call}", "unknown", 3, fake={"CRASH": call})
        for call in ("nvmlInitWithFlags", "nvmlDeviceGetCount_v2")
    ),
    nvml("crash in shutdown", "present", 3, fake={"COUNT": "2", "CRASH": "nvmlShutdown"}, devices=2),
    nvml("slow and in time", "present", 0, fake={"COUNT": "1", "SLEEP_MS": "300"}, seconds=8.0, devices=1),
]

CHILDREN = [
    nvml(f"the child {name}", "unknown", 3, child=program, seconds=1.5, texts=(said,))
    for name, program, said in (
        ("writes garbage", "echo hello", "no answer"),
        ("writes half a line", "printf '{\"count\": 2'", "not complete"),
        ("writes ten megabytes", "head -c 10000000 /dev/zero", "and was killed"),
        ("says something on stderr alone", "echo odd >&2", "odd"),
        ("closes its pipes and stays", "exec >&- 2>&-; sleep 60", "did not answer"),
        ("is none, for sys.executable is empty", "", "sys.executable"),
    )
]

VERSIONS = [
    Case(
        f"vllm {version}",
        root=H100,
        nvml="full",
        fake={"COUNT": "2"},
        distributions={"vllm": version},
        platform="cpu",
        qualname=CPU,
        status={"cuda": "absent", "cpu": "present"},
        evidence=("cuda.build", "cpu.build"),
        exit=0,
    )
    for version in ("0.33.0+cpu", "1.0.cpu1")
]
VERSIONS += [
    Case(
        "vllm for CUDA without a GPU",
        distributions={"vllm": "0.33.0"},
        status={"cuda": "absent", "cpu": "absent"},
        absent=("cuda.nvml", "cpu.build"),
    ),
    Case(
        "nothing at all", status={"cuda": "absent", "rocm": "absent", "xpu": "absent", "tpu": "absent", "cpu": "absent"}
    ),
]

HOSTS = [
    *(
        Case(
            root,
            root=root,
            platform="cuda",
            qualname=CUDA,
            status={"cuda": "present"},
            evidence=("cuda.tegra",),
            exit=0,
        )
        for root in ("tegra-release-file", "tegra-soc-family", "tegra-firmware")
    ),
    Case(
        "WSL with libraries",
        root="wsl-with-libraries",
        nvml="full",
        fake={"COUNT": "1"},
        platform="cuda",
        qualname=CUDA,
        status={"cuda": "present"},
        evidence=("cuda.wsl", "cuda.nvml"),
        exit=0,
    ),
    Case(
        "WSL without NVML, where libcuda counts no GPU",
        root="wsl-without-libraries",
        status={"cuda": "absent"},
        evidence=("cuda.wsl", "cuda.second-opinion"),
        cuda=True,
    ),
    *(
        # the same file for all of them, and only torch's build tells whose GPU it is
        Case(
            f"WSL without NVML, and {kind}",
            root="wsl-without-libraries",
            modules=(kind,),
            platform=platform,
            qualname=qualname,
            status={"cuda": "absent", platform: "present"},
            evidence=(f"{platform}.wsl", f"{platform}.torch"),
            exit=0,
            cuda=True,
        )
        for kind, platform, qualname in (("torch-hip", "rocm", ROCM), ("torch-xpu", "xpu", XPU))
    ),
    *(
        # libcuda goes by the mask, too: a mask must not count twice
        Case(
            f"WSL without NVML, where libcuda counts two GPUs, and CUDA_VISIBLE_DEVICES={mask!r}",
            root="wsl-without-libraries",
            environment={"FAKE_CUDA_COUNT": "2", "CUDA_VISIBLE_DEVICES": mask},
            platform="cuda",
            qualname=CUDA,
            status={"cuda": status},
            evidence=("cuda.wsl", "cuda.second-opinion"),
            exit=0,
            devices=2,
            texts=("libcuda counts 2 GPUs",),
            cuda=True,
        )
        for mask, status in (("", "masked"), ("-1", "masked"), ("1", "present"), ("2", "masked"))
    ),
    Case(
        "container without the runtime",
        root="nvidia-container",
        status={"cuda": "absent"},
        evidence=("cuda.driver",),
        exit=3,
        texts=("container",),
    ),
    # PCI shows a GPU, and nothing of a driver is there
    Case("no /proc", root="no-proc", status={"cuda": "absent"}, evidence=("cuda.pci",), exit=3),
    Case(
        "driver mismatch",
        root="driver-mismatch",
        nvml="full",
        fake={"RC_nvmlInitWithFlags": "18"},
        nvml_version="570.195.03",
        status={"cuda": "absent"},
        evidence=("cuda.nvml", "cuda.driver"),
        exit=3,
        texts=("570.124.06", "570.195.03"),
    ),
    Case(
        "laptop", root="laptop", status=dict.fromkeys(("cuda", "rocm", "xpu", "tpu"), "absent"), evidence=("xpu.drm",)
    ),
]

MASKS = [
    Case(
        f"CUDA_VISIBLE_DEVICES={mask!r}",
        root=H100,
        nvml="full",
        fake={"COUNT": "2"},
        environment={"CUDA_VISIBLE_DEVICES": mask},
        platform="cuda",
        qualname=CUDA,
        status={"cuda": status},
        evidence=("cuda.mask", "cuda.nvml"),
        exit=0,
        devices=2,
    )
    for mask, status in {
        "": "masked", "-1": "masked", "NoDevFiles": "masked", "0,0": "masked",
        "GPU-aa,1": "masked",
        "0": "present", "0,-1,1": "present", "1gpu2,2ampere": "present", "0, 1": "present", "MIG-x": "present",
    }.items()
]  # fmt: skip

ROCM_CASES = [
    Case(
        "MI300X",
        root="rocm-mi300x",
        platform="rocm",
        qualname=ROCM,
        status={"rocm": "present"},
        evidence=("rocm.kfd",),
        exit=0,
    ),
    *(
        Case(
            f"MI300X and {variable}={mask!r}",
            root="rocm-mi300x",
            environment={variable: mask},
            platform="rocm",
            qualname=ROCM,
            status={"rocm": "masked"},
            exit=0,
            texts=(f"{variable} hides all of it",),
        )
        for variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
        for mask in ("", "-1")
    ),
    Case("CPU nodes only", root="rocm-cpu-nodes-only", status={"rocm": "absent"}, absent=("rocm.kfd",)),
    # one file of the two is sound
    Case(
        "binary properties",
        root="rocm-binary-properties",
        platform="rocm",
        qualname=ROCM,
        status={"rocm": "present"},
        evidence=("rocm.kfd",),
        exit=0,
    ),
    Case(
        "long properties",
        root="rocm-long-properties",
        platform="rocm",
        qualname=ROCM,
        status={"rocm": "present"},
        exit=0,
    ),
    Case("AMD iGPU", root="rocm-igpu", platform="rocm", qualname=ROCM, status={"rocm": "present"}, exit=0),
    Case(
        "AMD iGPU beside a GPU of NVIDIA",
        root="nvidia-and-amd-igpu",
        nvml="full",
        fake={"COUNT": "1"},
        platform="cuda",
        qualname=CUDA,
        status={"cuda": "present", "rocm": "present"},
        exit=0,
    ),
]

TPU_CASES = [
    Case("v5e", root="tpu-v5e", platform="tpu", qualname=TPU, status={"tpu": "present"}, evidence=("tpu.pci",), exit=0),
    Case(
        "vfio", root="tpu-vfio", platform="tpu", qualname=TPU, status={"tpu": "present"}, evidence=("tpu.vfio",), exit=0
    ),
    *(
        Case(
            f"no TPU: {root}",
            root=root,
            status={"tpu": "absent"},
            absent=("tpu.pci", "tpu.accel", "tpu.vfio"),
            exit=code,
        )
        # the directory is NVIDIA's, whose library is missing here
        for root, code in {"tpu-gvnic-only": 1, "accel-directory": 3, "vfio-bluefield": 1, "amd-npu-accel": 1}.items()
    ),
    *(
        # found, never imported
        Case(
            kind,
            modules=(kind,),
            platform="tpu",
            qualname=TPU,
            status={"tpu": "present"},
            evidence=("tpu.libtpu",),
            exit=0,
        )
        for kind in ("libtpu", "libtpu-raises", "libtpu-exits", "libtpu-hangs")
    ),
    Case(
        "Pathways",
        environment={"JAX_PLATFORMS": "Proxy,cpu"},
        platform="tpu",
        qualname=PATHWAYS,
        status={"tpu": "present"},
        evidence=("tpu.pathways",),
        exit=0,
    ),
    Case(
        "a left-over libtpu beside a GPU",
        root=H100,
        nvml="full",
        fake={"COUNT": "1"},
        modules=("libtpu",),
        platform="cuda",
        qualname=CUDA,
        status={"tpu": "present", "cuda": "present"},
        exit=0,
    ),
]

OTHERS = [
    Case("neuron", root="neuron", status={"neuron": "present"}, evidence=("neuron.node",)),
    Case("neuron's lookalikes", root="neuron-lookalikes", status={"neuron": "absent"}, absent=("neuron.node",)),
    Case("gaudi", root="gaudi", status={"hpu": "present", "tpu": "absent"}, evidence=("hpu.accel",)),
    Case("ascend", root="ascend", status={"npu": "present"}, evidence=("npu.node",)),
    Case("davinci's lookalike", root="davinci-lookalike", status={"npu": "absent"}, absent=("npu.node",)),
    Case(
        "Arc and its driver",
        root="xpu-discrete",
        platform="xpu",
        qualname=XPU,
        status={"xpu": "present"},
        evidence=("xpu.drm",),
        exit=0,
    ),
    Case("Intel iGPU", root="xpu-igpu", status={"xpu": "absent"}, evidence=("xpu.drm",)),
    Case(
        "Intel iGPU and torch for it",
        root="xpu-igpu",
        modules=("torch-xpu",),
        platform="xpu",
        qualname=XPU,
        status={"xpu": "present"},
        exit=0,
    ),
]

ORDERS = [
    Case(
        "VLLM_TARGET_DEVICE=cpu",
        root=H100,
        nvml="full",
        fake={"COUNT": "2"},
        environment={"VLLM_TARGET_DEVICE": "cpu"},
        platform="cpu",
        qualname=CPU,
        status={"cpu": "present"},
        absent=("cuda.nvml",),
        exit=0,
    ),
    Case(
        "zen by order",
        root="zen-avx512",
        environment={"VLLM_TARGET_DEVICE": "cpu"},
        modules=("zentorch",),
        platform="cpu",
        qualname=ZEN,
        status={"cpu": "present"},
        exit=0,
    ),
    Case(
        "zen without zentorch",
        root="zen-avx512",
        environment={"VLLM_TARGET_DEVICE": "cpu"},
        platform="cpu",
        qualname=CPU,
        status={"cpu": "present"},
        exit=0,
    ),
    Case("a platform that is not here", environment={"VPLUG_PLATFORM": "cuda"}, error="PlatformAbsentError", exit=1),
    Case("a mistyped platform", environment={"VPLUG_PLATFORM": "cudo"}, error="PlatformError", texts=("cuda",), exit=2),
    Case(
        "forced",
        environment={"VPLUG_PLATFORM": "cuda", "VPLUG_PLATFORM_FORCE": "1"},
        platform="cuda",
        qualname=CUDA,
        exit=0,
    ),
    Case(
        "unknown taken for present",
        root=H100,
        nvml="full",
        fake={"CRASH": "nvmlInitWithFlags"},
        environment={"VPLUG_ON_UNKNOWN": "assume"},
        platform="cuda",
        qualname=CUDA,
        status={"cuda": "unknown"},
        exit=0,
    ),
    Case(
        "unknown as an error",
        root=H100,
        nvml="full",
        fake={"CRASH": "nvmlInitWithFlags"},
        environment={"VPLUG_ON_UNKNOWN": "error"},
        error="PlatformUnknownError",
        exit=3,
    ),
]

ALL = [*NVML, *CHILDREN, *VERSIONS, *HOSTS, *MASKS, *ROCM_CASES, *TPU_CASES, *OTHERS, *ORDERS]
