"""`npu bench sim`: engines and other simulators side by side, on the same NPU and workload."""
