"""One judge for each platform: evidence and what else is known in, a `Probe` out. They look at nothing themselves.

What lies on the path is known through `context.Context`, which finds out when it is first asked.
"""
