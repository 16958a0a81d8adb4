"""How good is it, beside what, on which data?

The paper's experiments, and some beyond it, run by `python -m lab`. `case` makes streams whose truth is known.
`imputers` and `maintainers` hold the rivals, each kind behind one protocol, and `paper` the paper's index; `race` runs
any pair of them, or Fogline, and scores the answers. `experiments` are built of these; `bench` runs them, `results`
keeps the rows, `report` shows them. The lab may import any room of `fogline`; no room imports the lab, and the wheel
does not hold it.
"""
