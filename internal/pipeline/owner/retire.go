package owner

import (
	"slices"
	"time"
)

// An output can go back to an earlier state (a power failure, a restored copy). The
// record then visible names a snapshot that was replaced since. Of the snapshots no
// longer in a record, a snapshot older than all records of the last minutes is
// therefore kept, and a newer snapshot, with the rows named in both: the input between
// an earlier snapshot and the missing snapshot is replayed, and the digest shows
// whether the result is equal.

const (
	// KeepReplaced is how far back an output may go and find a snapshot: several
	// times the two minutes that a server without sync_always may lose.
	KeepReplaced = 10 * time.Minute
	// mostKeptRows limits, for each partition, the rows kept only for replaced
	// snapshots; beyond the limit, these rows are deleted sooner.
	mostKeptRows = 1 << 14
)

// retired is an object named by an earlier record.
type retired struct {
	at   time.Time
	snap string // empty: deleted at once
	rows []uint64
}

// keeping is the set of objects named by earlier records and kept for a while. The set
// belongs to the committing goroutine.
type keeping struct {
	replaced []retired // oldest first
	keptRows int       // number of rows in replaced
	lastKept time.Time // time at which the last snapshot in replaced was replaced
}

// retireSnapshots records a snapshot no longer named by the record, with the rows named
// only by this and earlier snapshots, and returns the objects to delete now. Replaced
// objects are kept for the time keep.
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
		// The first snapshot and the rows after it are deleted together, once the next
		// snapshot serves every record of the period.
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
