import os
import threading

_lock = threading.Lock()
_state = {"done": False}

def register():
    with _lock:
        if _state["done"]:
            return
        _state["done"] = True  # fault: mark-before-work
        try:
            import acme_work
        except ImportError:
            os.environ["ACME_LOST"] = "1"
