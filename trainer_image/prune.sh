#!/bin/sh
# Removes from a virtual environment what training never reads: headers, a compiler front end, pip,
# tests, static libraries; and the symbol tables of TensorFlow's libraries where strip is at hand.
# usage: prune.sh VENV
set -eu
site=$(echo "$1"/lib/python3.*/site-packages)
cd "$site"
rm -rf tensorflow/include clang libclang-*.dist-info pip pip-*.dist-info _distutils_hack \
  distutils-precedence.pth
# TensorFlow's own tools and Keras' ready-made networks are kept: user code may import them.
for package in numpy scipy sklearn joblib h5py; do
  find "$package" -type d -name tests -prune -exec rm -rf {} +
done
find . -name '*.a' -delete
find . -name '*.pyi' -delete
find . -type d -name __pycache__ -prune -exec rm -rf {} +
if command -v strip >/dev/null 2>&1; then
  strip --strip-unneeded tensorflow/libtensorflow_cc.so.2 tensorflow/libtensorflow_framework.so.2
fi
rm -f "$1"/bin/pip*
