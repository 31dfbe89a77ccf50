"""Running what was generated: loading modules, interpreting and compiling them without a GPU."""
