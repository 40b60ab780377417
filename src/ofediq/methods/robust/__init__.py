"""Updates that are valid and yet not to be trusted.

guard       which updates count, and how much
balance     whom the model follows: what most members want, or what a few do
votes       whom the others oppose: evidence of many rounds, for few members
directions  how far members lie apart, and what keeps them together
measures    lengths, sketches and sums of many updates
ledger      what each member has said in all, where the server goes on adding it
scales      the guard of a live server in a simulation
attacks     hostile clients, for experiments
"""
