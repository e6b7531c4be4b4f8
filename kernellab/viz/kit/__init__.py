"""The parts of all views: widget, page, card, figure, palette."""
