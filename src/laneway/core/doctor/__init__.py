"""What is wrong with a node or a cluster, judged from facts: findings with a remedy each."""
