"""vLLM's plugin system: the same groups, names, order and results, and what is mended in it.

`functions` has vLLM's functions over our loader, `activation` puts them into a running vLLM, `doors` calls that.
Nothing here imports vLLM by itself: a process that has no vLLM pays nothing.
"""
