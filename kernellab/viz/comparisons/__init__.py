"""The view of two compilations side by side: card, live view."""
