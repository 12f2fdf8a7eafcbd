"""`python -m AnatomicalEmbedding`: the command line where the `anatemb` script is not installed."""

import sys

from .cli.main import main

sys.exit(main())
