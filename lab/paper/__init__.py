"""The paper's system (*Skyline Queries Over Incomplete Data Streams*), as printed and as corrected.

| paper | file |
|---|---|
| section 2, Definitions 1 to 6, Eq. 1 to Eq. 3; Eq. 14 | `objects.py` |
| Algorithm 1, framework | `framework.py` |
| section 3, DDs, conceptual lattice, Algorithm 2 | `lattice.py` |
| section 4, Lemma 1, Lemma 2, Lemma 3 | `pruning.py` |
| sections 5.1, 5.3.1, skyline tree, Algorithms 3 and 4, Properties 1 to 4, Lemmas 4 to 6 | `skyline_tree.py` |
| section 5.2, index I_j: grid, R*-tree, aggregates, insertion | `index.py`, compiled in `lab/kernels/rtree.py` |
| section 5.2, histograms | `histograms.py`, compiled in `lab/kernels/histograms.py` |
| section 5.3.2, Algorithm 5, Lemma 7, Lemma 8 | `refinement.py` |
| section 5.4, Appendix D, cost model, Eq. 5 to Eq. 12, Algorithm 6 | `cost.py` |
| section 6.1, synthetic data | `generator.py` |

Words are the paper's here: an *object* is a row, an *instance* one of its possible points, a *sample* a row of R.
Equations have the numbers of their labels in the paper's source (eq1 to eq12, eq14), and so have Tables 1, 2 and 5 of
its running example; Table 7 holds the rules of the experiments. Lines of algorithms are counted as the paper's text
counts them.
"""
