#!/bin/bash
# generate.sh: make the Python of src/laneway/api/kubelet/ again from the .proto files there.
#
# The compiler is that of protobuf 5, because what it makes runs on 5 and 6. Needs, in an environment
# of its own: pip install grpcio-tools==1.71.2 grpclib 'mypy-protobuf<4'
set -euo pipefail
cd "$(dirname "$0")/../../src"

"${PYTHON:-python3}" -m grpc_tools.protoc --proto_path=. --python_out=. --mypy_out=quiet:. \
  --grpclib_python_out=. laneway/api/kubelet/*.proto
