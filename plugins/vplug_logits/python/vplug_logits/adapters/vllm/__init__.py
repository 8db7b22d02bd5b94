"""The head inside vLLM: one function of its `LogitsProcessor` replaced, whatever is in the way told."""
