"""The protocol on a network: links to a broker, and the lives of server and clients."""
