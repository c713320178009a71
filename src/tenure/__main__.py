"""`python -m tenure`: the same as the `tenure` command."""

import sys

from tenure.service.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
