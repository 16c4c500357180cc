"""The agent of one sandbox: runs commands, keeps what they said, and moves files, for whoever holds its token.

Standard library only and no imports from outside this folder: it is packed into one file (`pack.py`) and started inside
any image, or forked, loaded already, by the local spawner, and then lives outside of the workload's process ids.
HTTP/1.1 over a Unix socket; one thread; file transfers are done by a forked child that takes the connection over, so
that memory stays constant and nobody waits for a disk. Works from Python 3.9 on, as an image may hold an older one.
"""
