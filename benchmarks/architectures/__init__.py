"""The Transformer beside a recurrent and a convolutional translator of the same size, trained on the same pieces of the same text."""
