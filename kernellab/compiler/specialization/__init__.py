"""How arguments become a `Specialization`: types, promises, constants."""
