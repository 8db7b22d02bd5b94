import os

def register():
    if os.environ.get("ACME_OFF"):
        return
    from vllm.model_executor.layers.activation import SiluAndMul  # fault: failure-uncontained

    os.environ["ACME_SEEN"] = SiluAndMul.__name__
