package owner

import (
	"slices"
	"time"
)

// An output can go back to what it was a moment before (a power failure, a copy
// put back). The record that comes to light then names a snapshot that was
// replaced since. So of what a record does not name any more, one snapshot is
// kept that is older than all records of the last minutes, and one since, with
// the rows they name: what lies between an earlier snapshot and the one that is
// gone is replayed, and the digest says whether it came out as it was.

const (
	// KeepReplaced is how far back an output may go and find a snapshot: several
	// times the two minutes that a server without sync_always may lose.
	KeepReplaced = 10 * time.Minute
	// mostKeptRows bounds, for each partition, the rows that are kept for
	// replaced snapshots alone; beyond them these go sooner.
	mostKeptRows = 1 << 14
)

// retired is what a record named before.
type retired struct {
	at   time.Time
	snap string // empty: it was deleted at once
	rows []uint64
}

// keeping is what records named before, and is kept for a while. Whoever
// commits has it.
type keeping struct {
	replaced []retired // oldest first
	keptRows int       // of these
	lastKept time.Time // when the last snapshot of these was replaced
}

// retireSnapshots notes a snapshot that the record names no more, and rows that only it
// and those before it name, and returns what is to be deleted now. What is
// replaced is kept for the time keep.
func (t *keeping) retireSnapshots(snap string, rows []uint64, keep time.Duration, now time.Time) (snaps []string, unused []uint64) {
	if snap != "" && (keep == 0 || t.lastKept.Add(keep).After(now)) {
		snaps, snap = []string{snap}, ""
	}
	if keep == 0 {
		return snaps, rows
	}
	if snap != "" {
		t.lastKept = now
	}
	t.replaced = append(t.replaced, retired{now, snap, rows})
	t.keptRows += len(rows)
	for len(t.replaced) > 0 {
		// The first snapshot and all that stands behind it go together, once
		// the next serves every record of the time.
		next := 1 + slices.IndexFunc(t.replaced[1:], func(r retired) bool { return r.snap != "" })
		if t.keptRows <= mostKeptRows && (next == 0 || now.Sub(t.replaced[next].at) < keep) {
			break
		}
		if next == 0 {
			next = len(t.replaced)
		}
		for _, r := range t.replaced[:next] {
			if r.snap != "" {
				snaps = append(snaps, r.snap)
			}
			unused = append(unused, r.rows...)
			t.keptRows -= len(r.rows)
		}
		t.replaced = t.replaced[next:]
	}
	return snaps, unused
}
