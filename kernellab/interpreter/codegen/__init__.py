"""Operations become Python source: analyses, expressions, statements, positions."""
