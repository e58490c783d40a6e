"""The kubelet's two gRPC protocols as messages: device plugins (v1beta1) and pod resources (v1).

The `.proto` files say what Laneway uses of them, with the names and numbers that every kubelet
speaks; the Python next to them is made from these by `tools/kubelet-protocols/generate.sh`.
"""
