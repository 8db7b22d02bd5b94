import os

def make():  # fault: target-wrong-kind
    return os.environ
