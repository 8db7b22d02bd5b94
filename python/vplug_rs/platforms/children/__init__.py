"""Programs that run in a process of their own, so that nothing of what they load or call happens in this one.

`stage.py` is started by its path, without `site`, and loads by their paths those that ask a vendor's library; nobody
imports these. `plugins` asks a platform plugin, and has its asker's half in it too.
"""
