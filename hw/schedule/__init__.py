"""The scheduler and what it keeps of streams and engines."""
