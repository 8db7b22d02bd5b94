"""`python -m vplug_rs`: the same as the `vplug` command."""

import sys

from vplug_rs.cli import main

if __name__ == "__main__":
    sys.exit(main())
