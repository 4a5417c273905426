"""Data sources that a server polls or subscribes to: TCP addresses, folders and WebSub hubs."""
