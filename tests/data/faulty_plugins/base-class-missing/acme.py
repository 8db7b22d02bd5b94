class Processor:  # fault: base-class-missing
    def __init__(self, vllm_config, req_states):
        self.vllm_config = vllm_config
