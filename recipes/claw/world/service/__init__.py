"""The services themselves. Standard library only: this folder is shown inside the sandbox and runs there."""
