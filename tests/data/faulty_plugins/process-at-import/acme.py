import os
from subprocess import run

VERSION = run(["acme", "--version"], capture_output=True).stdout  # fault: process-at-import

def register():
    if not os.environ.get("ACME_OFF"):
        os.system("acme --start")
