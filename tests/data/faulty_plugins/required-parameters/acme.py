import os

def register(registry, *, strict, name="acme"):  # fault: required-parameters
    return os.environ.get(name)
