"""The world of an assistant: small stateful services in the sandbox, and how the host starts and reads them."""
