"""The use cases behind the commands, and behind `reconcile.run()` of the root package.

Import a use case from its module; importing the package costs nothing, because what
`status` needs would double the start-up of `run`.

trigger        `run`: what cron, timers and people call
by_hand        `resume`: finish what was begun, approve what waits
rerunning      `rerun`: work a finished interval again
interventions  `skip`, `stop`
backfill       `backfill`: a span of past intervals
overview       `status`
application    what they are given, and what they are asked
"""
