"""Where a head goes into a host: one module or package for each."""
