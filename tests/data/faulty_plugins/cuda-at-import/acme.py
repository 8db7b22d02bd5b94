import torch
from torch import cuda
from vllm.v1.metrics.loggers import StatLoggerBase

COUNT = torch.cuda.device_count()  # fault: cuda-at-import
ZERO = torch.zeros(1, device="cuda:0")  # fault: cuda-at-import

class Logger(StatLoggerBase):
    free = cuda.mem_get_info()  # fault: cuda-at-import

    def record(self, size=cuda.current_device()):  # fault: cuda-at-import
        torch.cuda.synchronize()
