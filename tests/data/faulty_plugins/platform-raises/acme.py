import os

def platform():
    if not os.environ.get("ACME_DEVICES"):
        raise RuntimeError("no acme here")  # fault: platform-raises
    return "acme.Platform"

class Platform:
    pass
