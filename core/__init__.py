"""The rules: what is due, who may work, how far it got, and the proof that it is done."""
