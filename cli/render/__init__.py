"""Text for people and objects for programs, made of values. Nothing in here does I/O,
except `watch`, which shows a run while it goes on."""
