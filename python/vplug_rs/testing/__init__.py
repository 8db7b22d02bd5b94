"""Public helpers for tests of plugins, platforms and hosts: no test framework is needed."""
