"""The table of seeded faults and what catches each; arguments select families or names."""

import sys
import time

from . import by_audit, by_check, mutants

caught = total = 0
for m in mutants():
    if sys.argv[1:] and not {m.family, m.name} & set(sys.argv[1:]):
        continue
    start = time.process_time()
    error = by_check(m)
    seconds = time.process_time() - start
    outcome = by_audit(m)
    total, caught = total + 1, caught + (type(error).__name__ == "UnsoundRuleError")
    flag = "" if error and outcome.word == m.audit else "   <-- not as recorded"
    print(f"{m.family:11s} {m.name:37s} {m.kind:20s} check: {type(error).__name__ if error else 'MISSED':17s} {seconds:5.2f} s  audit: {outcome.word} {', '.join(outcome.names)}{flag}")
    if m.name in sys.argv:
        print(error, outcome.text, sep="\n")
print(f"seeded faults caught: {caught} of {total}")
