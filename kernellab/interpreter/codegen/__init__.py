"""Operations become Python source: expressions, statements, positions."""
