import os

def register():
    if os.environ.get("ACME_OFF"):
        return
    try:
        from vllm.model_executor.layers.logits_processor import LogitsProcessor

        LogitsProcessor._get_logits = replaced  # fault: patch-without-version-check
        setattr(LogitsProcessor, "forward", replaced)  # fault: patch-without-version-check
    except ImportError as error:
        os.environ["ACME_LOST"] = str(error)

def replaced(*args):
    return args
