"""What attention sees: the weights of a translation, what they align, what each head does, and pictures of it."""
