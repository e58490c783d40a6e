"""Machine pools of Rancher's guest clusters: which devices their machines have, and if they fit."""
