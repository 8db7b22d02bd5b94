import os

from triton import language  # fault: heavy-import

def work():
    return language, os.environ
