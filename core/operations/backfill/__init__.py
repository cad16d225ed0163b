"""Backfills: asked for by people, worked by whoever has the job's lease.

turns      whose place is the next, and what an interval of a backfill begins with
settling   what is written down besides runs: its end, and that of what is given up
bounds     what a call asks for
asking     `reconcile backfill`: asked for, changed, cancelled
waiting    a call that stays until it is over
views      how it stands
"""
