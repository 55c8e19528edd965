"""The one source of every register, descriptor, instruction word and code. No Amaranth here."""
