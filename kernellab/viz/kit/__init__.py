"""What all views are built with: widget, page, card, figure, palette."""
