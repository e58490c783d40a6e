"""All vGPUs of a GPU as one wish: the plan for it, and what is written for it stage by stage."""
