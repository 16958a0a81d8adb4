"""Which rows can still matter, which keep which out, and which are in?

The room's objects, from the outside in:

- `Group` (`group`): one skyline, with its clock. It goes from instant to instant and decides which rows count: each one
  (`WindowGroup`), or the newest of each id (`LatestGroup`, in `latest`). It has a live set.
- `LiveSet` (`live`): the rows of one group that can still matter. It takes one tick and knows who is in. In a
  `LatestLiveSet` any row may be replaced; in a `SkybandLiveSet` (`skyband`) fewer than k others may dominate a row that
  is in. `ManyLiveSets` are those of many groups, side by side; one is a case of many.
- `Slots` (`slots`): the columns in which live rows lie. Kernels see them as `ManyLiveArrays`, or those of one group as
  `LiveArrays` (`fogline.arrays`).
"""
