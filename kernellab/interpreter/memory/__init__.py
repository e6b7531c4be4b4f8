"""Memory of a launch: global, shared and tensor memory, and every access checked."""
