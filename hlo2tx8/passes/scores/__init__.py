"""What is computed of the scores of attention: the instructions between two products."""
