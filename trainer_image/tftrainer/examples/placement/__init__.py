"""ClusterSpec, devices, map and reduce: TensorFlow's servers without Keras or a strategy.

The workers and ps are the trainer's own. This program is the chief: it connects to them, says with
`tf.device` which task computes what, and checks results and places against this process alone.
"""
