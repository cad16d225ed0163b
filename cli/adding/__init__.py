"""How a line of a crontab becomes a job.

crontab   a line as cron reads it: when, and what
wrappers  what stood before the command and is not needed any more
command   the words of the job's command
table     its text in reconcile.toml, and where that is written
"""
