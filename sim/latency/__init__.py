"""`npu latency`: cycles between what depends on each other, measured twice."""
