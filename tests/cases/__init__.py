"""Cases re-made from public reports on other tools; `conftest.py` says how they are run."""
