import os
from os import environ

os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"  # fault: environment-at-import
environ.setdefault("ACME", "1")  # fault: environment-at-import
del os.environ["ACME"]  # fault: environment-at-import

def register():
    os.environ["ACME_SEEN"] = "1"
