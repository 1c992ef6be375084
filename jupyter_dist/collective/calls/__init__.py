"""What a collective is given and gives back: arguments, arrays, data types, flat buffers."""
