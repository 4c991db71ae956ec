//go:build linux

package main

import "testing"

// TestAuditPosition: a commit without predictions keeps the position of a split commit,
// and no commit names a snapshot after its digest.
func TestAuditPosition(t *testing.T) {
	split := commit{outs: 7, in: 10, ahead: 3, snapshot: 8, digest: 10}
	for _, c := range []struct {
		what  string
		next  commit
		n     int
		may   may
		wrong int
	}{
		{"the rest of the predictions", commit{outs: 9, in: 11, snapshot: 8, digest: 11}, 2, may{}, 0},
		{"a claim", split, 0, may{}, 0},
		{"a dead letter", commit{outs: 7, in: 11, snapshot: 8, digest: 11}, 0, may{}, 1},
		{"a dead letter after a loss", commit{outs: 7, in: 11, snapshot: 8, digest: 11}, 0, flaggedOrStopped, 0},
		{"a snapshot after the digest", commit{outs: 8, in: 10, ahead: 4, snapshot: 11, digest: 10}, 1, may{}, 1},
	} {
		a := newAudit(nil)
		a.may = c.may
		if a.checkPosition(stored{}, split, c.next, c.n); a.wrong != c.wrong {
			t.Errorf("%s: %d errors, want %d: %q", c.what, a.wrong, c.wrong, a.notes)
		}
	}
}
