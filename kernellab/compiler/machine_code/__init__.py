"""SASS and AMDGCN decoded; registers, resources, occupancy."""
