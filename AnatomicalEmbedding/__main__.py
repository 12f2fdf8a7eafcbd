"""`python -m AnatomicalEmbedding` runs the same command line as the script `anatemb`, which may not be installed."""

import sys

from .cli.main import main

sys.exit(main())
