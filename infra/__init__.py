"""The operator's side: toolchain, embedded servers, command line. Nothing here runs inside Spark."""
