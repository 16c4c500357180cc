"""The operations for harnesses that take no tools of their own: SKILL.md files to read and a command to run."""
