"""Trains with MultiWorkerMirroredStrategy as TensorFlow's tutorial does; it knows no operator."""

import os

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
if strategy.num_replicas_in_sync != int(os.environ["REPLICAS"]):
    raise SystemExit(f"{strategy.num_replicas_in_sync} replicas train together")

features = tf.random.uniform([1024, 4])
labels = tf.reduce_sum(features, axis=1, keepdims=True)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
    model.compile(tf.keras.optimizers.SGD(0.1), loss="mse")
data = tf.data.Dataset.from_tensor_slices((features, labels)).repeat().batch(64)
losses = model.fit(data, epochs=3, steps_per_epoch=50, verbose=2).history["loss"]
if losses[-1] > losses[0]:
    raise SystemExit("it has learned nothing")
