"""`python -m energyopt.applier.helper`: started by the shim, never by hand."""

import sys

from energyopt.applier.helper.loop import main

sys.exit(main())
