"""Submission queues, their entries, and the completion writer."""
