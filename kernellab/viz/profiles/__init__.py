"""How profiles look: cards, flame graphs, timelines."""
