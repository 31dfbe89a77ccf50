"""The table of attacks: at which stage each falls, and what becomes of the sound neighbours."""

import sys
from collections import Counter

from . import attacks, judge, refuted

wanted, stages = set(sys.argv[1:]), Counter()
for a in attacks():
    if wanted and not {a.module, a.name} & wanted:
        continue
    verdict = judge(a.rule)
    stages[verdict.stage] += 1
    flag = "" if refuted(verdict) else f"   <-- {type(verdict.error).__name__ if verdict.error else 'ACCEPTED'}"
    print(f"{a.module:11s} {a.name:45s} {a.kind:20s} {verdict.stage:14s} {verdict.seconds:6.2f} s{flag}", flush=True)
    if a.name in wanted:
        print(verdict.text)
    for rule in a.sound:
        verdict = judge(rule, ("registration", "check"))
        stages["sound: " + ("accepted" if verdict.stage == "accepted" else "refused")] += 1
        flag = "" if verdict.stage == "accepted" else f"   <-- REFUSED {verdict.text.splitlines()[0][:120]}"
        print(f"{'':11s} + {rule.name:43s} {'':20s} {verdict.stage:14s} {verdict.seconds:6.2f} s{flag}", flush=True)
        if a.name in wanted or rule.name in wanted:
            print(verdict.text)
print(dict(stages))
