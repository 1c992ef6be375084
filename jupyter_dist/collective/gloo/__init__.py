"""The transport of gloo: arrays in host memory moved by what torch brings along."""
