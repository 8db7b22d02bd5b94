"""`python -m vplug_logits` is `vplug-logits`."""

import sys

from vplug_logits.cli import main

sys.exit(main())
