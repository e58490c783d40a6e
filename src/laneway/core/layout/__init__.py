"""All vGPUs of a GPU as one spec: the plan for it, and what is written for it stage by stage."""
