"""One module per command, with a function of the command's name."""
