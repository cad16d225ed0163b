"""JSON APIs over HTTP as a source. See `reading.py`."""
