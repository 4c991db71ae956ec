package owner

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Replaced objects are kept within the limits and for the configured time, each row as
// long as a snapshot that names the row.
func TestReplacedIsKept(t *testing.T) {
	t.Parallel()
	const step = 7 * time.Second
	var tn keeping
	began := time.Now()
	type was struct{ replaced, gone time.Duration }
	snaps, rows := map[string]*was{}, map[uint64]*was{}
	for i := range uint64(300) {
		at := time.Duration(i+1) * step // zero means never
		name := fmt.Sprint(i)
		snaps[name], rows[i] = &was{replaced: at}, &was{replaced: at}
		old, unused := tn.retireSnapshots(name, []uint64{i}, KeepReplaced, began.Add(at))
		for _, s := range old {
			snaps[s].gone = at
		}
		for _, r := range unused {
			rows[r].gone = at
		}
		if n := len(tn.replaced); n > 0 {
			kept := 0
			for _, r := range tn.replaced {
				if r.snap != "" {
					kept++
				}
			}
			if kept > 2 {
				t.Fatalf("%d snapshots are kept", kept)
			}
		}
		// A record of any time in the last keepReplaced finds a snapshot at or before
		// its own snapshot, and that snapshot's rows.
		for back := at - KeepReplaced; back <= at; back += step {
			if back < 0 {
				continue
			}
			named := uint64(back / step) // replaced at the next step
			found := false
			for k := range min(named, i) + 1 {
				if w := snaps[fmt.Sprint(k)]; w.gone == 0 {
					found = true
					for r := k; r <= i; r++ { // the snapshot includes rows freed later
						if rows[r].gone != 0 {
							t.Fatalf("at %v, row %d, which snapshot %d may name, is deleted", at, r, k)
						}
					}
				}
			}
			if !found {
				t.Fatalf("at %v, a record of %v finds no snapshot", at, back)
			}
		}
	}
	for i := range uint64(20) { // no more rows than the limit, at any time
		tn.retireSnapshots(fmt.Sprint(1000+i), make([]uint64, mostKeptRows/4), KeepReplaced, began.Add(300*step+time.Duration(i)))
		held := 0
		for _, r := range tn.replaced {
			held += len(r.rows)
		}
		if held != tn.keptRows || held > mostKeptRows {
			t.Fatalf("%d rows are kept, counted as %d", held, tn.keptRows)
		}
	}
	if old, unused := tn.retireSnapshots("a", []uint64{1}, 0, began); !slices.Equal(old, []string{"a"}) || len(unused) != 1 {
		t.Errorf("keeping nothing: %v, %v", old, unused)
	}
}
