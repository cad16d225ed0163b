#!/usr/bin/env python3
"""The same in Python: 1,000 steps, each told of when it is done."""

import json
import os
from pathlib import Path

done = json.loads(os.environ["RECONCILE_CURSOR"] or "0")
with os.fdopen(int(os.environ["RECONCILE_PROGRESS_FD"]), "w", buffering=1) as progress:
    for step in range(done + 1, int(os.environ.get("STEPS", "1000")) + 1):
        with Path(os.environ.get("OUTPUT", "steps.txt")).open("a") as output:
            print(step, file=output)
        print(json.dumps({"cursor": step, "count": step}), file=progress)
