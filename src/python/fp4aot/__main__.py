"""``python -m fp4aot``."""

import sys

from .cli import main

sys.exit(main())
