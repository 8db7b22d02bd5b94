import logging
import os

_done = False

def register():
    global _done
    if _done or os.environ.get("ACME_OFF"):
        return
    if _done:
        return
    _done = True  # fault: mark-before-work
    logging.info("acme starts")
    work()

def work():
    return os.environ
