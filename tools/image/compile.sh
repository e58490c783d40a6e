#!/bin/sh
# compile.sh PYTHON: compile what this interpreter imports from: its own library, or, of a virtual
# environment's interpreter, the packages of the environment.
#
# An image's root is read-only, and official Python images carry no bytecode, so without this every
# start would compile everything again. The bytecode is never checked against its source: times do
# not survive the layers of an image, and a checked hash reads each source at every start to learn
# what cannot be otherwise. It holds no times either, so it is the same in each build.
set -eu

"$1" -m compileall -q -f -j 0 --invalidation-mode unchecked-hash \
  -x '/(test|tests|idlelib|lib2to3|ensurepip|turtledemo)/|/lib/python[0-9.]+/(site|dist)-packages/pip/' \
  "$("$1" -c 'import sys, sysconfig
print(sysconfig.get_path("stdlib" if sys.prefix == sys.base_prefix else "purelib"))')"
