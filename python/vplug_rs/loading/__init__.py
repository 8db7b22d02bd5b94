"""What `vplug_rs.loader` is made of: plugins and their records, one attempt at one plugin, the table of this process.

The data goes one way: `plugin` -> `attempt` -> `process` -> `loader`.
"""
