import os

OFF = os.environ.get("ACME_OFF")
register = "acme.work"  # fault: target-wrong-kind
