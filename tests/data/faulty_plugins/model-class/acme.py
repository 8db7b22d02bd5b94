import os

class Model:
    pass

def register():
    if os.environ.get("ACME_OFF"):
        return
    from acme_models import AcmeForCausalLM
    from vllm import ModelRegistry

    ModelRegistry.register_model("Acme", Model)  # fault: model-class
    ModelRegistry.register_model("Acme2", AcmeForCausalLM)  # fault: model-class
