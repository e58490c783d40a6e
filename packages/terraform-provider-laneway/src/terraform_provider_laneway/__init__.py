"""Laneway's provider for Terraform: what `laneway` changes is a resource, what it shows is data.

It decides nothing itself. What is possible is judged by Laneway's own rules, changes are made by
Laneway's own code, with the rights of the user whose kubeconfig is given.
"""
