"""Golden models: what the blocks must do, in plain Python."""
