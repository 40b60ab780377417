"""Pictures: one style for every figure of the project. Needs the extra `report` (matplotlib).

style     one colour, line and marker per method, everywhere
canvas    figures and axes, without pyplot and its global state
lines     a curve per method: mean and band over seeds
labels    direct labels at the ends of lines, never on top of each other
curves    accuracy or MSE over time and over bits
comparison   the same for the results of an experiment
regret    measured regret: what learning gained, what saved bits cost; and beside its bound
frontier  accuracy or MSE against the bits really spent

The functions take axes and return what they drew, so that other figures can be built from them.
"""
