import os
import urllib.request

with urllib.request.urlopen("https://acme.example/models") as answer:  # fault: network-at-import
    MODELS = answer.read()

def register():
    return MODELS, os.environ
