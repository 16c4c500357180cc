"""The sandbox service: any `Env` behind REST, for many clients at once. `serve.run` starts it."""
