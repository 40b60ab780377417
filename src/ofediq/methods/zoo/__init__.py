"""The named methods, one file each. `ofediq methods` lists them."""

ORDER = ("fedogd", "ofedavg", "fedomd", "ofediq", "ofedgrid")
"""These come first, in this order, where methods are listed; the others follow by name."""
