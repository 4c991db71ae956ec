package pipeline

import "fmt"

const (
	// stateVersion changes with the bytes of a snapshot and with what a digest
	// is of. Records without one are of version 2, or of programs before the
	// first release.
	stateVersion = 3
	oldestState  = 2 // that is read
)

// versionError is a state in a form that another version of the program
// writes. Nothing is wrong with the store.
type versionError struct{ found uint64 }

func (e *versionError) Error() string {
	which := "a newer"
	if e.found < oldestState {
		which = "an older"
	}
	return fmt.Sprintf("version %d, this program reads %d to %d: %s program wrote it; run that one, or begin a new job, which can answer the same input again", e.found, oldestState, stateVersion, which)
}

// otherVersion reports a record whose digest this program cannot compute. It
// is told before the partition is claimed, so that its own program goes on.
func (r *record) otherVersion() error {
	if v := r.mark.version; v > 0 && (v < oldestState || v > stateVersion) {
		return fmt.Errorf("digest: %w", &versionError{v})
	}
	return nil
}
