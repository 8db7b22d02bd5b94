"""Which accelerator is here: evidence for and against each platform, and the one that counts.

Evidence is gathered from files (`_core.probe_passive`), then by children with a deadline; no driver's library is ever
opened in this process, and nothing of it is changed.
"""
