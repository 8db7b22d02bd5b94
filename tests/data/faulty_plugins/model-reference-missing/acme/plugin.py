import os

def register():
    if os.environ.get("ACME_OFF"):
        return
    import vllm

    vllm.ModelRegistry.register_model("Acme", "acme.models:Acme")
    vllm.ModelRegistry.register_model("Acme2", "acme.models:Acme2")  # fault: model-reference-missing
    vllm.ModelRegistry.register_model("Acme3", "acme.model:Acme")  # fault: model-reference-missing
    vllm.ModelRegistry.register_model("Other", "somewhere.else_:Other")
