"""What calls `reconcile run JOB`: a line for a crontab, or a service and a timer for systemd.

    plan      what is to be called, how often, as whom, and what it needs
    cron      the line, as cron, a shell and a bare environment read it
    systemd   the two units, and how systemd reads words and paths
    hardening what is taken from the service, so far as the job can bear it
    files     writing them where they are wanted, over nothing that differs

A printed line or unit works as it stands: absolute paths, nothing of the caller's environment.
"""
