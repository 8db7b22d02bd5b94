import os
import sys

print("acme is here")  # fault: print-at-import
print("acme is here", file=sys.stderr)

def register():
    return os.environ.get("ACME_OFF")
