"""A cluster on this machine: container engine, kind, images loaded, and the shell's environment for it."""
