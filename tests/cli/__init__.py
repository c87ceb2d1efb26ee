"""The command line of the checkout: what proves the platform, and the commands of `infra.cli`."""
