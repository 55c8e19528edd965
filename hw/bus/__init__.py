"""The memory bus: guards, arbitration, and the parts that cut and join bytes."""
