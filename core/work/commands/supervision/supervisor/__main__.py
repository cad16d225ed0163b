"""Where the process begins: as a package of the name `supervisor`, behind the standard library.

Paths are texts here and beside: importing pathlib takes as long as all the rest.
"""

import sys
from importlib import import_module
from os.path import dirname

if __name__ == "__main__":
    sys.path.append(dirname(dirname(__file__)))
    sys.exit(import_module("supervisor.main").main(sys.argv))
