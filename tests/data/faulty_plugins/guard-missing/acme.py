import logging
import os

def register():
    handler = logging.FileHandler(os.environ["ACME_LOG"])
    logging.getLogger("vllm").addHandler(handler)  # fault: guard-missing
