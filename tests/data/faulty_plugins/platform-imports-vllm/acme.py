import os

from vllm.platforms.interface import Platform  # fault: platform-imports-vllm

class Acme(Platform):
    pass

def platform():
    return "acme.Acme" if os.path.exists("/dev/acme") and os.environ.get("ACME") != "0" else None
