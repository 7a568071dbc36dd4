import numpy as np
from sklearn.datasets import load_digits
from tftrainer.examples import mnist


def test_the_digits_beside_the_example_are_those_of_scikit_learn() -> None:
    images, labels = mnist._small_digits()

    expected_images, expected_labels = load_digits(return_X_y=True)
    wanted = (expected_images.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    np.testing.assert_array_equal(images, wanted)
    np.testing.assert_array_equal(labels, expected_labels)
    assert (images.dtype, labels.dtype) == (np.float32, np.int32)
