import os

def register():
    if os.environ.get("ACME_OFF"):
        return
    from vllm.lora.request import LoRARequest  # fault: failure-uncontained
    from vllm.lora.resolver import LoRAResolver, LoRAResolverRegistry

    class Resolver(LoRAResolver):
        def resolve_lora(self, base_model_name, lora_name):  # fault: async-mismatch
            if lora_name != "acme":
                return None
            return LoRARequest(lora_name, 1, "/srv/acme")

    LoRAResolverRegistry.register_resolver("acme", Resolver())
