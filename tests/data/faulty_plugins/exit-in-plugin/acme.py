import os
import sys

def register():
    if os.environ.get("ACME_OFF"):
        return
    start()

def start():
    if not os.path.exists("/dev/acme"):
        sys.exit("there is no acme")  # fault: exit-in-plugin
    if os.path.exists("/dev/acme1"):
        os._exit(1)  # fault: exit-in-plugin
    raise SystemExit(2)  # fault: exit-in-plugin

def main():
    sys.exit(0)

if __name__ == "__main__":
    sys.exit(main())
