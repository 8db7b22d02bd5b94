import os

import torch.nn as nn  # fault: heavy-import

try:
    import transformers  # fault: heavy-import
except ImportError:
    transformers = None

def register():
    if os.environ.get("ACME_OFF"):
        return
    print(nn, transformers)
