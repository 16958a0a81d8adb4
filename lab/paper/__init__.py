"""The paper's system (*Skyline Queries Over Incomplete Data Streams*), as printed and as corrected.

| paper | file |
|---|---|
| section 2, Definitions 1 to 6, Eq. 1 to Eq. 4, Tables 1 to 5 | `objects.py`, compiled in `lab/kernels/paper.py` |
| Algorithm 1, framework | `framework.py` |
| section 3, DDs, conceptual lattice, Algorithm 2, Table 6 | `lattice.py` |
| section 4, Lemma 1, Lemma 2, Lemma 3, Eq. 6 | `pruning.py`, compiled in `lab/kernels/paper.py` |
| sections 5.1, 5.3.1, skyline tree, Algorithms 3 and 4, Properties 1 to 4, Lemmas 4 to 6 | `skyline_tree.py` |
| section 5.2, index I_j: grid, R*-tree, aggregates, insertion | `index.py`, compiled in `lab/kernels/rtree.py` |
| section 5.2, histograms | `histograms.py`, compiled in `lab/kernels/histograms.py` |
| (no index: a scan of R, a sorted column) | `access.py` |
| section 5.3.2, Algorithm 5, Lemma 7, Lemma 8 | `refinement.py` |
| section 5.4, Appendix D, cost model, Eq. 7 to Eq. 15, Algorithm 6 | `cost.py` |
| section 6.1, Table 7, rules | `rules.py` |
| section 6.1, synthetic data | `generator.py` |
| section 6.1, Table 8 (instances), Table 9 (parameters), Eq. 5 (F) | `experiments/pruning.py`, `case.py`, `race.py` |
| section 6, Figures 8 to 20 | `lab/experiments`, each by its `figure` |

Words are the paper's here: an *object* is a row, an *instance* one of its possible points, a *sample* a row of R.
Equations, tables and figures have their printed numbers. Labels in the paper's source differ: its eq14 is Eq. 4, its
eq5 to eq12 are Eq. 8 to Eq. 15. Lines of algorithms are counted as the paper's text counts them.
"""
