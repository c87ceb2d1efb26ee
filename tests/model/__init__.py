"""A model of the chain with two drivers: the protocol's own code, in every order of requests up to a stated bound."""
