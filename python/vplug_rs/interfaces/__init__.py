"""What vLLM asks of the plugins of each group: a `Protocol` and a checker in each module.

A checker takes the class or object and gives findings. It looks, and never makes an instance or calls anything of the
plugin's; vLLM itself is not imported. Whether something derives from a class of vLLM's is read off its bases.
"""

from vplug_rs.interfaces._check import ERROR, WARNING, Finding

__all__ = ["ERROR", "WARNING", "Finding"]
