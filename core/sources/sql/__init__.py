"""Any database as a source, through SQLAlchemy Core; see `reading.py`."""
