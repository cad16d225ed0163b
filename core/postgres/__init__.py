"""What everything that talks to a PostgreSQL server has in common.

Addresses that can be shown, connections that wait for no longer than they may, and what an
error of the driver means. Needs psycopg, so it is imported where an address asks for it only.
"""
