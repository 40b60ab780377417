"""How bits and bytes are spent.

steering    bits where they matter: one number that the server broadcasts with the model
steered     the server rule that finds this number
loudness    what an update costs, and what that number says about it
windows     windows that grow
metered     broadcasts as fine as the bits that are due allow
purse       what one member may take of a budget that all have together
connection  the bytes that a message costs on a socket
allowance   budgets that count these bytes
"""
