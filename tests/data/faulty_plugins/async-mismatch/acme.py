import os

async def register():  # fault: async-mismatch
    return os.environ.get("ACME_OFF")
