"""The process that owns every sandbox of one `LocalEnv`. Standard library only, one thread.

It is started as `python -I -S -E`, so nothing here may import from outside this folder and that of the agent.
"""
