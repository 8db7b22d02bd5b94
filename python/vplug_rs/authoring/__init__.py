"""For authors of vLLM plugins: the rules a plugin has to keep, a check that reads its source, skeletons that keep them.

Nothing of a plugin is imported: pyproject.toml and Python's syntax tree are read. What only running it could tell is
not reported.
"""
