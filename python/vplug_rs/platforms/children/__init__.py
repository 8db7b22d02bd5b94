"""Programs that ask a vendor's library in a process of their own.

Nobody imports them: `stage.py` is started by its path, without `site`, and loads one of the others by its path.
"""
