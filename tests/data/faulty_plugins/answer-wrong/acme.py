import os

class Platform:
    pass

def platform():
    if os.environ.get("ACME_OFF"):
        return ""  # fault: answer-wrong
    if os.environ.get("ACME_ON"):
        return "acme:Platform"  # fault: answer-wrong
    return Platform  # fault: answer-wrong
