"""A small web shop, made from a seed, with tasks, a grader that looks at what happened, and a scripted shopper."""
