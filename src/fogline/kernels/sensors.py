"""What has each sensor read lately, which of a call's rows count, and which earlier gaps do they revise?

Of each attribute of each sensor the newest k values are kept, newest first: times (s, d, k), -inf where there is none,
and values (s, d, k). A missing value takes no place: however long an attribute is silent, its last value is there.

`walk` takes rows in the order of their times. A row sees only readings that are older than itself, whenever it comes:
what it sees is its *context*, per attribute the last value, how old that is, how far it lies above the three before it,
and above the mean of all that are kept, in which newer ones count more.

Now and then a known value is hidden, to see how well it would be imputed: its context is computed on a copy without
what is hidden, and nothing else depends on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels.compile import kernel
from fogline.kernels.gaps import NONE, nothing_found, place, release, revise
from fogline.kernels.heard import mixed

LAST, AGE, SECOND, THIRD, FOURTH, TIDE = range(6)  # the numbers of a context, per attribute
PARTS = 6
FADING = 0.8  # what a reading counts in the mean, relative to the next newer one
TAKEN, UNABLE, COPY, NO_READING = range(4)  # the fates of a row, see `Candidates`
LONGEST_RUN = 4  # values before a hidden one that are hidden as well, at most: of the 8 kept, a context uses 4
SILENCE, LONG = 8.0, 64.0  # silent, and silent for long: the last value is so many usual distances old


class Readings(NamedTuple):
    """Rows of a call, in the order of their times."""

    sensor: Ints  # (n,) by number
    time: Floats  # (n,)
    values: Floats  # (n, d) NaN = missing
    wanted: Flags  # (n,) whose contexts are wanted
    fate: Ints  # (n,) gets what becomes of each row, see `Candidates`


class Kept(NamedTuple):
    """What is kept of all sensors."""

    times: Floats  # (s, d, k) of the newest values of each attribute, falling; -inf = none
    values: Floats  # (s, d, k)
    rows: Floats  # (s, k) the times of the newest rows, whatever they lacked, falling; -inf = none; (s, 0): not kept
    versions: Ints  # (s, d) the version of each attribute's newest value; or (0, d): not kept


class Newest(NamedTuple):
    """The newest k values of each attribute of one sensor, newest first."""

    times: Floats  # (d, k) -inf = none
    values: Floats  # (d, k)


class Recent(NamedTuple):
    """Rules about what the same sensor has read lately."""

    radius: Floats  # (r, d) how close a reading must be in each attribute; NaN: that does not matter
    span: Floats  # (r,) how old it may be
    then: Ints  # (r,) the attribute to impute


class Candidates(NamedTuple):
    """Rows of which it is still to be decided whether they count. The first rule that applies decides:

    1. UNABLE: the row has a gap that nothing can fill.
    2. COPY: another row of its stamp is taken.
    3. NO_READING: it counts, but its sensor has had a row of that instant (not where later rows correct earlier ones).
    4. TAKEN: it counts.

    Only taken rows that may be readings become part of what is kept. See `fogline.intake.take` for what follows of it.
    """

    stamp: Ints  # (n,) rows that share a stamp have one number, the preferred one comes first; NONE: no other has it
    needs: Flags  # (n, d) cells that only the sensor's past can fill; or (0, d): there are none
    last: Flags  # (d,) of which attributes the last value fills a gap
    read: Flags  # (n,) which rows may be readings at all
    version: Ints  # (n,) where a later row may correct the sensor's newest; or (0,): the first row of an instant counts

    def part(self, which: Ints) -> Candidates:
        """Some of the rows, or all in another order."""
        needs = self.needs[which] if len(self.needs) else self.needs
        version = self.version[which] if len(self.version) else self.version
        return Candidates(self.stamp[which], needs, self.last, self.read[which], version)

    def numbered(self) -> Candidates:
        """The same with numbers of stamps from 0 on."""
        _, number = np.unique(np.append(NONE, self.stamp), return_inverse=True)
        return self._replace(stamp=number[1:] - 1)


class Trials(NamedTuple):
    """Known values of n rows that may be hidden, at most one of a row; m of them are drawn by lot."""

    attribute: Ints  # (n,) which one; where that is not sure, the first that is looked at
    row: Ints  # (m,) ascending
    run: Ints  # (m,) so many values of the attribute before it are hidden as well …
    together: Flags  # (m,) … and what other attributes have read since the first of them
    sure: Flags  # (m,) hidden in any case; else if an attribute was silent, and without a lot if it was for long


class HiddenValues(NamedTuple):
    """Values that may be hidden (`Trials`, by the order of rows), and room for those that are."""

    attribute: Ints  # (n,)
    row: Ints  # (m,) the number of the row, ascending
    run: Ints  # (m,)
    together: Flags  # (m,)
    sure: Flags  # (m,)
    reading: Ints  # (most,) of each value that is hidden the number of its row, …
    which: Ints  # (most,) … its attribute, …
    single: Flags  # (most,) … whether no other is hidden and the attribute was not silent, …
    context: Floats  # (most, w) … and its context
    used: Ints  # (1,) how many of these there are


@kernel
def walk(readings, kept, recent, longest, pool, openings, candidates, leaving, hiding, out):
    """Take rows one by one: write the contexts that are wanted, decide which rows count, find which open gaps they
    revise, then keep their values, and their own gaps.

    `longest`: how old a reading may be that is seen. A context is written to out (wanted, d · PARTS + r · k), NaN where
    nothing is kept: the row's own numbers, then what each rule finds among the sensor's k readings. Where gaps are
    watched, (d, 2) numbers follow: the next value of each attribute and how much later it came, for rows that come
    late. `leaving`: sensors that leave on the way. Returns the gaps that were revised.
    """
    at = trial = left = 0
    n, d, k = readings.sensor.shape[0], kept.values.shape[1], kept.values.shape[2]
    own_width = d * PARTS + recent.span.shape[0] * k
    found, placed = nothing_found(0, d), np.empty(openings.expires.shape[0], np.int64)
    watched, filled, taken = pool.head.shape[0] > 0, 0, np.zeros(n, np.bool_)  # stamps of which a row is taken
    for i in range(n):
        s, now, values = readings.sensor[i], readings.time[i], readings.values[i]
        while watched and left < leaving.at.shape[0] and leaving.at[left] <= i:
            release(pool, leaving.sensor[left], now)
            left += 1
        own = Newest(kept.times[s], kept.values[s])
        expires = openings.expires[i] if openings.open.shape[0] else np.inf
        drawn = trial < hiding.row.shape[0] and hiding.row[trial] == i
        lot = trial if drawn else NONE
        trial += drawn
        fate, stamp = TAKEN, candidates.stamp[i]
        if readings.wanted[i]:
            look_back(own, now, values, recent, longest, out[at])
            if watched:
                foresee(own, now, expires, out[at, own_width:].reshape(d, 2))
            if candidates.needs.shape[0] and is_unable(candidates, i, recent, k, out[at]):
                fate = UNABLE
            at += 1
        if fate == TAKEN and stamp >= 0:
            fate = COPY if taken[stamp] else TAKEN
            taken[stamp] = True
        if fate == TAKEN and candidates.version.shape[0] == 0 and was_there(kept.rows[s], now):
            fate = NO_READING
        readings.fate[i] = fate
        if fate != TAKEN or not candidates.read[i]:
            continue
        newest = watched and is_newest(pool.newest[s], now, expires, values)
        if newest:
            found = revise(pool, s, i, now, values, found)
        if hiding.reading.shape[0]:
            hide(own, now, values, recent, longest, hiding, i, lot)
        if watched and openings.open.shape[0]:
            slot = leave_open(own, pool, s, now, expires, openings.open[i])
            if slot >= 0:
                pool.row[slot], placed[filled] = i, slot
                filled += 1
        if newest:
            pool.newest[s] = now
        if candidates.version.shape[0]:
            correct(own, kept.versions[s], now, values, candidates.version[i])
        else:
            note_row(kept.rows[s], now)
            remember(own, now, values)
    while watched and left < leaving.at.shape[0]:
        release(pool, leaving.sensor[left], readings.time[-1])
        left += 1
    for m in range(filled):
        pool.row[placed[m]] = NONE
    return found


@kernel
def is_unable(candidates, i, recent, k, context):
    """Whether row i has a gap that neither a last value nor a rule about the recent past in its context fills."""
    needs, last = candidates.needs[i], candidates.last
    d = needs.shape[0]
    for j in range(d):
        able = not needs[j] or (last[j] and not np.isnan(context[j * PARTS + LAST]))
        for r in range(recent.span.shape[0]):
            if recent.then[r] == j:
                begin = d * PARTS + r * k
                able = able or not np.isnan(context[begin : begin + k]).all()
        if not able:
            return True
    return False


@kernel
def was_there(rows, now):
    """Whether a sensor's newest rows (k,), whose times fall, hold one of that instant."""
    for time in rows:
        if time <= now:
            return time == now
    return False


@kernel
def note_row(rows, now):
    """Put the time of a row among the sensor's newest ones (k,); the oldest drops out."""
    k = rows.shape[0] - 1
    if k < 0 or now <= rows[k]:
        return
    while k > 0 and rows[k - 1] < now:
        rows[k] = rows[k - 1]
        k -= 1
    rows[k] = now


@kernel
def is_newest(newest, now, expires, values):
    """Whether a row has any value, and is newer than the newest reading of its sensor so far.

    A newest reading from after this row expires does not count: its clock was wrong, or this row is too late for any.
    """
    if not (now > newest or newest >= expires):
        return False
    for x in values:
        if not np.isnan(x):
            return True
    return False


@kernel
def look_back(own, now, values, recent, longest, out):
    """The context of a row at `now`: its own numbers, and what each rule about the recent past finds."""
    d, k = own.values.shape
    recall(own, now, longest, out[: d * PARTS].reshape(d, PARTS))
    for r in range(recent.span.shape[0]):
        find_recent(own, now, values, recent, r, longest, out[d * PARTS + r * k : d * PARTS + (r + 1) * k])


@kernel
def recall(own, now, longest, out):
    """A row's own numbers (d, PARTS), from its sensor's newest values (d, k)."""
    for j in range(own.values.shape[0]):
        out[j] = np.nan
        found, weight, total, heavy = 0, 1.0, 0.0, 0.0
        for k in range(own.times.shape[1]):
            if own.times[j, k] < now - longest or own.times[j, k] == -np.inf:
                break
            if own.times[j, k] >= now:
                continue
            x = own.values[j, k]
            if found == 0:
                out[j, LAST], out[j, AGE] = x, now - own.times[j, k]
            elif found <= 3:
                out[j, AGE + found] = out[j, LAST] - x
            total += weight * x
            heavy += weight
            weight *= FADING
            found += 1
        if found:
            out[j, TIDE] = out[j, LAST] - total / heavy


@kernel
def find_recent(own, now, values, recent, r, longest, out):
    """The values (k,) that rule r finds in the sensor's readings for a row with these values; NaN for the others."""
    j, span = recent.then[r], min(recent.span[r], longest)
    for k in range(own.times.shape[1]):
        out[k] = np.nan
        at = own.times[j, k]
        if at < now and now - at <= span:
            near = True
            for q in range(values.shape[0]):
                near = near and (np.isnan(recent.radius[r, q]) or was_close(own, q, at, values[q], recent.radius[r, q]))
            if near:
                out[k] = own.values[j, k]


@kernel
def was_close(own, j, at, value, radius):
    """Whether attribute j was close to `value` in the reading at that time."""
    for k in range(own.times.shape[1]):
        if own.times[j, k] == at:
            return abs(own.values[j, k] - value) <= radius
    return False


@kernel
def remember(own, now, values):
    """Keep the values of a row. One that is older than all, or of an instant that is there, changes nothing."""
    for j in range(values.shape[0]):
        if not np.isnan(values[j]):
            keep(own, j, now, values[j])


@kernel
def keep(own, j, now, value):
    """Put one value in its place; the oldest drops out."""
    most, k = own.times.shape[1], 0
    while k < most and own.times[j, k] > now:
        k += 1
    if k == most or own.times[j, k] == now:
        return
    for m in range(most - 1, k, -1):
        own.times[j, m], own.values[j, m] = own.times[j, m - 1], own.values[j, m - 1]
    own.times[j, k], own.values[j, k] = now, value


@kernel
def correct(own, versions, now, values, version):
    """As `remember`, but at the sensor's newest instant a value replaces one whose version is no greater.

    versions (d,): of each attribute's newest value. At older instants what is there stays.
    """
    newest = -np.inf
    for j in range(values.shape[0]):
        newest = max(newest, own.times[j, 0])
    for j in range(values.shape[0]):
        if np.isnan(values[j]):
            continue
        if now == newest and own.times[j, 0] == now:
            if version >= versions[j]:
                own.values[j, 0], versions[j] = values[j], version
        else:
            if now > own.times[j, 0]:
                versions[j] = version
            keep(own, j, now, values[j])


@kernel
def foresee(own, now, expires, out):
    """The next value of each attribute after `now`, and how much later it came (d, 2): only a late row has any.

    A value from after the row expires does not count. If all that are kept are later than the row there is none: the
    one that came next may be gone.
    """
    for j in range(own.values.shape[0]):
        out[j] = np.nan
        if own.times[j, -1] > now:
            continue
        for k in range(own.times.shape[1]):
            if not own.times[j, k] > now:
                break
            if own.times[j, k] < expires:
                out[j, 0], out[j, 1] = own.values[j, k], own.times[j, k] - now


@kernel
def leave_open(own, pool, s, now, expires, cells):
    """Keep the cells (d,) of a row whose next values are not there yet; they wait for them. Returns the slot."""
    waits, some = np.zeros(cells.shape[0], np.bool_), False
    for j in range(cells.shape[0]):
        waits[j] = cells[j]
        for k in range(own.times.shape[1]):
            if not own.times[j, k] > now:
                break
            waits[j] = waits[j] and not own.times[j, k] < expires
        some = some or waits[j]
    if not some or expires <= now:
        return NONE
    return place(pool, s, now, expires, waits)


@kernel
def hidden(time, values, share, after_silence):
    """Which values may be hidden: about one row in `share` in any case, and one in `after_silence` of the others.

    time (n,), values (n, d), NaN = missing. A hash of a row's time and values decides, so the batch it comes in does
    not matter: which attribute, how many values before it are hidden as well (every second time none), and whether
    those of other attributes are. A row whose choice falls on a gap is left out.
    """
    n, d = values.shape
    attribute, row, run = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n, np.int64)
    together, sure = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    bits, cell = time.view(np.uint64), np.empty(1)
    m = 0
    for i in range(n):
        h = mixed(bits[i])
        for j in range(d):
            cell[0] = values[i, j] if values[i, j] == values[i, j] else np.nan  # one NaN for all
            h = mixed(h ^ cell.view(np.uint64)[0])
        attribute[i] = j = np.int64((h >> np.uint64(32)) % np.uint64(d))
        if h % np.uint64(share) == np.uint64(0) and values[i, j] == values[i, j]:
            drawn = np.int64((h >> np.uint64(12)) % np.uint64(2 * LONGEST_RUN))
            row[m], run[m], sure[m] = i, max(drawn - LONGEST_RUN + 1, 0), True
            together[m] = (h >> np.uint64(20)) % np.uint64(2) == np.uint64(1)
            m += 1
        elif (h >> np.uint64(24)) % np.uint64(after_silence) == np.uint64(0):
            row[m] = i
            m += 1
    return Trials(attribute, row[:m].copy(), run[:m].copy(), together[:m].copy(), sure[:m].copy())


@kernel
def hide(own, now, values, recent, longest, hiding, i, trial):
    """Hide a value of row i, if it is to be: keep the context that the row would have. Nothing later counts.

    `trial`: the row's number among the trials; NONE: it is not among them.
    """
    m, j = hiding.used[0], hiding.attribute[i]
    if m == hiding.reading.shape[0]:
        return
    sure = trial >= 0 and hiding.sure[trial]
    if not sure:
        j = back_from_silence(own, now, values, j, LONG if trial < 0 else SILENCE)
        if j < 0:
            return
    run, together = (hiding.run[trial], hiding.together[trial]) if sure else (0, False)
    hiding.context[m] = np.nan
    look_back(without(own, now, j, run, together), now, values, recent, longest, hiding.context[m])
    hiding.reading[m], hiding.which[m] = i, j
    hiding.single[m] = run == 0 and silence(own.times[j], now) <= SILENCE
    hiding.used[0] = m + 1


@kernel
def back_from_silence(own, now, values, first, length):
    """The first attribute from `first` on, in a circle, whose value at `now` ends a silence of that length; or NONE."""
    d = values.shape[0]
    for q in range(d):
        j = (first + q) % d
        if not np.isnan(values[j]) and silence(own.times[j], now) > length:
            return j
    return NONE


@kernel
def silence(times, now):
    """How old the last value before `now` is, in usual distances: the median of the three before it.

    0 where too few are kept. times (k,): falling.
    """
    k = 0
    while k < times.shape[0] and times[k] >= now:
        k += 1
    if k + 3 >= times.shape[0] or times[k + 3] == -np.inf:
        return 0.0
    a, b, c = times[k] - times[k + 1], times[k + 1] - times[k + 2], times[k + 2] - times[k + 3]
    return (now - times[k]) / max(min(a, b), min(max(a, b), c))


@kernel
def without(own, now, j, run, together):
    """A copy without what was read from `now` on, and without the `run` values of attribute j before; one stays.

    `together`: also without what other attributes have read since the first of these.
    """
    times, values = np.full(own.times.shape, -np.inf), np.full(own.values.shape, np.nan)
    known = own.times[j][(own.times[j] < now) & (own.times[j] > -np.inf)]
    run = min(run, known.shape[0] - 1)
    begin = known[run - 1] if run > 0 else now
    for q in range(values.shape[0]):
        at = 0
        for k in range(values.shape[1]):
            if own.times[q, k] < (begin if together or q == j else now):
                times[q, at], values[q, at] = own.times[q, k], own.values[q, k]
                at += 1
    return Newest(times, values)


@kernel
def known_values(lo, raw, signs):
    """(n, d) attributes as the user sees them, where they came as single, plausible values; NaN elsewhere.

    lo (n, d): the rows' lower bounds, oriented; raw (n, d): the values as they came. An imputed value differs from raw.
    """
    n, d = lo.shape
    out = np.empty((n, d))
    for i in range(n):
        for j in range(d):
            came = lo[i, j] * signs[j] + 0.0
            out[i, j] = came if came == raw[i, j] else np.nan
    return out
