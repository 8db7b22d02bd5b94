import os

class Platform:  # fault: target-wrong-kind
    name = os.environ.get("ACME_NAME")
