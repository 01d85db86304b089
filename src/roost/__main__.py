# SPDX-License-Identifier: Apache-2.0
"""`python -m roost` is the command `roost`."""

import sys

from roost.cli.main import main

sys.exit(main())
