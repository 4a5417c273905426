"""What the server and the client of the HTTP API agree on: documents, refusals, and which status says which error."""
