"""The communicator of arrays in device memory: NCCL, and what is still on the device."""
