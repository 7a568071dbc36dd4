"""A recommender with tables of two million rows: this project beside stock Keras."""
