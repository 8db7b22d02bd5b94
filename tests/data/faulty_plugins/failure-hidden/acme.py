import os

def register():
    try:
        os.environ["ACME"]
    except KeyError:
        pass
    try:
        work()
    except Exception:  # fault: failure-hidden
        pass

def work():
    try:
        return 1 / 0
    except Exception as error:  # fault: failure-hidden
        ...
