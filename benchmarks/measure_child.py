"""Run a program and print, as JSON, what it took: ``python -I -S measure_child.py PROGRAM ARG…``.

A process of its own, and a small one: what a child of a large process holds before it becomes the program would count
as the program's largest resident set.
"""

import json
import os
import subprocess
import sys
import time

begun = time.monotonic()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
assert process.stderr is not None
said = process.stderr.read()
_, status, usage = os.wait4(process.pid, 0)
print(
    json.dumps(
        {
            "code": os.waitstatus_to_exitcode(status),
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "wall_s": time.monotonic() - begun,
            "peak_mb": usage.ru_maxrss / 1000,
            "last": (said.decode(errors="replace").strip().splitlines() or ["no message"])[-1][-200:],
        }
    )
)
