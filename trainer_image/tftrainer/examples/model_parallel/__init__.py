"""y = e^x, model-parallel: the layers of one network are on two tasks.

The chief is a program of its own, as in the example placement. It trains the network of the example
exponential twice: with its two layers on two workers, and in this process alone.
"""
