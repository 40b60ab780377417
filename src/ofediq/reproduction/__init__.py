"""The paper, run again."""
