"""The Python door: what the commands do, with frames and objects in place of files and screens."""
