def register():  # fault: switch-missing
    from vllm import ModelRegistry

    ModelRegistry.register_model("Acme", "acme:Model")

class Model:
    pass
