"""Which known values are hidden for a moment, to see how well they would be imputed?

A row is chosen by a hash of its time and values: by the row alone, whatever batch it comes in. The same hash decides
whether the attribute's values just before are hidden as well, as if it had been silent, and how many of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fogline.arrays import Flags, Floats, Ints
from fogline.kernels.compile import inner, kernel
from fogline.kernels.gaps import NONE, nothing_found, place, release, revise
from fogline.kernels.sorting import ascending
from fogline.kernels.uncertain import count_in

LONGEST_RUN = 4  # of the 8 values that are remembered; a context speaks of the 4 before


class Trials(NamedTuple):
    """Known values of n rows that may be hidden, at most one of a row; m of them are chosen by lot."""

    attribute: Ints  # (n,) which one; where that is not sure, the first that is looked at
    row: Ints  # (m,) ascending
    run: Ints  # (m,) so many values of the attribute before it are hidden as well …
    together: Flags  # (m,) … and what other attributes have read since the first of them
    sure: Flags  # (m,) whether it is hidden in any case; else if an attribute was silent, the others if it was for long


@inner
def mixed(x):
    """The same bits, well shaken: the end of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def hidden(time, values, share, after_silence):
    """About one row in `share` of which a value is hidden in any case, and one in `after_silence` of the others.

    time (n,), values (n, d), NaN = missing. A gap is never chosen: a row whose choice falls on one is left out. Every
    second run is of length 0.
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
def known_values(lo, raw, signs):
    """(n, d) attributes as the user sees them, where they came as single, plausible values; NaN elsewhere.

    lo (n, d): of the clouds, oriented; raw (n, d): as they came. What an imputer has filled in differs from raw.
    """
    n, d = lo.shape
    out = np.empty((n, d))
    for i in range(n):
        for j in range(d):
            came = lo[i, j] * signs[j] + 0.0
            out[i, j] = came if came == raw[i, j] else np.nan
    return out


# --- sensors ---
# What has a sensor read before, as numbers that a new reading can be compared with?
#
# The state of a sensor is the newest values of its attributes, the newest first: times (s, d, k), -inf where there is
# none, and values (s, d, k). A missing value takes no place: however long an attribute is silent, its last value is
# there. A reading sees only what is older than itself, whenever it comes; so its context never depends on later ones.
#
# The context of a reading, per attribute: its last value, how old that is, how far it lay above the three before, and
# above the mean of them all, in which the newest count most.
#
# Now and then a known value is hidden, to see how well it would be imputed: its context is that of a copy of the
# state
# without what is hidden. Nothing else depends on it.

LAST, AGE, SECOND, THIRD, FOURTH, TIDE = range(6)
PARTS = 6
FADING = 0.8  # what a reading counts in the mean, beside the one after it
TAKEN, UNABLE, COPY, KNOWN = range(4)  # what becomes of a row, see `Candidates`
SILENCE, LONG = 8.0, 64.0  # an attribute is silent if its last value is so many times as old as is usual; for long


class Readings(NamedTuple):
    """Readings in the order of their times."""

    sensor: Ints  # (n,) by number
    time: Floats  # (n,)
    values: Floats  # (n, d) NaN = missing
    wanted: Flags  # (n,) of which the context is wanted


class Newest(NamedTuple):
    """The newest k values of each attribute of each sensor."""

    times: Floats  # (s, d, k) -inf = none
    values: Floats  # (s, d, k)


class Recent(NamedTuple):
    """Rules about what the same sensor has read lately."""

    radius: Floats  # (r, d) how close a reading must be in each attribute; NaN: that does not matter
    span: Floats  # (r,) how old it may be
    then: Ints  # (r,) which attribute is imputed


class Candidates(NamedTuple):
    """Of which rows it is still to be decided whether they count: `fate` gets what becomes of each.

    TAKEN: it counts. UNABLE: it has a gap that nothing can fill. COPY: another row of its stamp counts. KNOWN: its
    sensor has sent a row of that instant before. Only rows that are taken, and that may be read, leave a trace.
    """

    stamp: Ints  # (n,) rows that share a stamp have one number, the best comes first; NONE: no other row has it
    needs: Flags  # (n, d) cells that only what the sensor has read can fill; or (0, d): there are none
    last: Flags  # (d,) of which attributes the last value fills a gap
    read: Flags  # (n,) which rows may be readings at all
    version: Ints  # (n,) where a later row may correct the sensor's newest; or (0,): the first row of an instant counts
    rows: Floats  # (s, k) the times of each sensor's newest rows, whatever they lacked, -inf = none
    versions: Ints  # (s, d) the version of each attribute's newest value
    fate: Ints  # (n,)


class HiddenValues(NamedTuple):
    """Values that may be hidden (see `kernels.hiding.Trials`), and what would be remembered then."""

    attribute: Ints  # (n,)
    row: Ints  # (m,) the reading's number, ascending
    run: Ints  # (m,)
    together: Flags  # (m,)
    sure: Flags  # (m,)
    reading: Ints  # (most,) the numbers of the readings of which a value is hidden, …
    which: Ints  # (most,) … its attribute, …
    single: Flags  # (most,) … whether no other is hidden, nor was the attribute silent, …
    context: Floats  # (most, w) … and its context
    used: Ints  # (1,) how many of these count


@kernel
def walk(readings, newest, recent, longest, pool, openings, candidates, leaving, hiding, out):
    """Take readings one by one: write the context of those that are wanted, decide which count, find what they say
    about open gaps, then remember them, and their own gaps.

    `longest`: how old a remembered reading may be. To out (wanted, d · PARTS + r · k), NaN where nothing is remembered:
    the context, and what each rule finds among the sensor's k readings; where gaps are watched, (d, 2) more: the next
    value and its age, which rows have that come late. Returns which gaps were revised.

    `leaving`: sensors that leave on the way, of which no later reading is. `hiding`: the same for values that are
    hidden; a reading that came before them, late or not, is known, none after.
    """
    at = trial = left = 0
    n, d, k = readings.sensor.shape[0], newest.values.shape[1], newest.values.shape[2]
    own_width = d * PARTS + recent.span.shape[0] * k
    found, placed = nothing_found(0, d), np.empty(openings.expires.shape[0], np.int64)
    watched, filled, taken = pool.head.shape[0] > 0, 0, np.zeros(n, np.bool_)  # stamps of which a row is taken
    for i in range(n):
        s, now, values = readings.sensor[i], readings.time[i], readings.values[i]
        while watched and left < leaving.at.shape[0] and leaving.at[left] <= i:
            release(pool, leaving.sensor[left], now)
            left += 1
        own = Newest(newest.times[s], newest.values[s])
        expires = openings.expires[i] if openings.open.shape[0] else np.inf
        drawn = trial < hiding.row.shape[0] and hiding.row[trial] == i
        lot = trial if drawn else NONE
        trial += drawn
        fate, stamp = TAKEN, candidates.stamp[i]
        if readings.wanted[i]:
            look_back(own, now, values, recent, longest, out[at])
            if watched:
                foresee(own, now, expires, out[at, own_width:].reshape(d, 2))
            if candidates.needs.shape[0] and lacks(candidates, i, recent, k, out[at]):
                fate = UNABLE
            at += 1
        if fate == TAKEN and stamp >= 0:
            fate = COPY if taken[stamp] else TAKEN
            taken[stamp] = True
        if fate == TAKEN and candidates.version.shape[0] == 0 and was_there(candidates.rows[s], now):
            fate = KNOWN
        candidates.fate[i] = fate
        if fate != TAKEN or not candidates.read[i]:
            continue
        speaks = watched and speaks_first(pool.heard[s], now, expires, values)
        if speaks:
            found = revise(pool, s, i, now, values, found)
        if hiding.reading.shape[0]:
            hide(own, now, values, recent, longest, hiding, i, lot)
        if watched and openings.open.shape[0]:
            slot = leave_open(own, pool, s, now, expires, openings.open[i])
            if slot >= 0:
                pool.row[slot], placed[filled] = i, slot
                filled += 1
        if speaks:
            pool.heard[s] = now
        if candidates.version.shape[0]:
            correct(own, candidates.versions[s], now, values, candidates.version[i])
        else:
            note_row(candidates.rows[s], now)
            remember(own, now, values)
    while watched and left < leaving.at.shape[0]:
        release(pool, leaving.sensor[left], readings.time[-1])
        left += 1
    for m in range(filled):
        pool.row[placed[m]] = NONE
    return found


@kernel
def lacks(candidates, i, recent, k, context):
    """Whether row i has a gap that its context cannot fill: neither its last value nor a rule about the recent past."""
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
    """Whether a sensor's newest rows (k,), by falling times, hold one of that instant."""
    for time in rows:
        if time <= now:
            return time == now
    return False


@kernel
def note_row(rows, now):
    """Put the time of a row among a sensor's newest ones; the oldest goes."""
    k = rows.shape[0] - 1
    if k < 0 or now <= rows[k]:
        return
    while k > 0 and rows[k - 1] < now:
        rows[k] = rows[k - 1]
        k -= 1
    rows[k] = now


@kernel
def speaks_first(heard, now, expires, values):
    """Whether a reading has any value, and is newer than all of its sensor so far.

    One that was heard after this one expires does not count: its clock was wrong, or this one is too late for any row.
    """
    if not (now > heard or heard >= expires):
        return False
    for x in values:
        if not np.isnan(x):
            return True
    return False


@kernel
def foresee(own, now, expires, out):
    """The next value of each attribute after `now`, and how much later it came (d, 2): only a late reading has any.

    One that came when the row has expired does not count; nor does any if all that are remembered are later: the next
    one may be forgotten.
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
    """Keep the cells (d,) of a row that wait for a later reading; those that know one need not. Returns the slot."""
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
def look_back(own, now, values, recent, longest, out):
    """The context of a reading at `now`, and what each rule about the recent past finds."""
    d, k = own.values.shape
    recall(own, now, longest, out[: d * PARTS].reshape(d, PARTS))
    for r in range(recent.span.shape[0]):
        find_recent(own, now, values, recent, r, longest, out[d * PARTS + r * k : d * PARTS + (r + 1) * k])


@kernel
def hide(own, now, values, recent, longest, hiding, i, trial):
    """Hide a value of reading i, if it is to be: the context that it would have. Nothing later is known, if it is late.

    `trial`: the lot that the reading drew; NONE: it has none.
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
    """The first attribute, from that one on, whose value at `now` ends a silence of that length; NONE: none does."""
    d = values.shape[0]
    for q in range(d):
        j = (first + q) % d
        if not np.isnan(values[j]) and silence(own.times[j], now) > length:
            return j
    return NONE


@kernel
def silence(times, now):
    """How old the last value before `now` is, in usual distances: the median of the three before; 0: too few are known.

    times (k,): falling.
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
    """A copy without what was read from `now` on, nor the `run` values of attribute j before, if one is left then.

    `together`: nor what other attributes have read since the first of these.
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
def recall(own, now, longest, out):
    """The context (d, PARTS) of a reading at `now`, from the sensor's own newest values (d, k)."""
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
    """The values that rule r finds in the sensor's readings, for a new one with these values; NaN for the others."""
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
    """Put a reading's values in their places; the oldest goes. One older than all, or of a known instant, is left."""
    for j in range(values.shape[0]):
        if not np.isnan(values[j]):
            keep(own, j, now, values[j])


@kernel
def keep(own, j, now, value):
    """Put one value in its place."""
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
    """As `remember`; but of the sensor's newest instant a value takes the place of one whose version is no greater.

    versions (d,): of each attribute's newest value. Of older instants what is there stays.
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
def gather(found):
    """The values of each line (n, k), NaN = none, as distributions: start, size, value, often."""
    start, size = np.empty(found.shape[0], np.int64), np.empty(found.shape[0], np.int64)
    value, often = np.empty(found.size), np.empty(found.size)
    filled = 0
    for i in range(found.shape[0]):
        line = ascending(found[i])  # NaN last
        start[i] = filled
        for x in line:
            if np.isnan(x):
                break
            filled = count_in(x, start[i], filled, value, often)
        size[i] = filled - start[i]
    return start, size, value[:filled].copy(), often[:filled].copy()
