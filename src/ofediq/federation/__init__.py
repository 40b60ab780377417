"""A live federation: the simulator's methods on real clients, over MQTT."""
