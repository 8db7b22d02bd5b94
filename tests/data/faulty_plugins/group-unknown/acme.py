import os

def register():
    if os.environ.get("ACME_OFF"):
        return
