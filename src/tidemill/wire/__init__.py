"""The protocol of the HTTP API, shared by server and client: documents, errors and their status codes."""
