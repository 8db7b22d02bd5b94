import torch

class Acme(torch.nn.Module):
    pass
