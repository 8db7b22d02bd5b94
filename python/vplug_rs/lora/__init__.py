"""LoRA adapters for a running vLLM: where they lie, which names are possible, and why one is not served.

`resolver` has the protocol and the registry, `names`, `adapter` and `refusal` the rules that all resolvers share,
`filesystem` serves a folder by way of `snapshots`, `vllm_resolvers` alone knows vLLM.
"""
