package owner

import (
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// storing tracks the stored states of a partition. The shard takes snapshots,
// goroutines of the emitter upload them, a commit names them, and Status and the sweep
// read the progress.
type storing struct {
	mu        sync.Mutex
	uploading bool        // a snapshot is in upload
	ready     *stored     // stored, and not yet named by a record
	saved     uint64      // last input message of the snapshot in the record
	home      uint64      // the bucket's generation, or the generation at the ownership's beginning: store.Snapshots.Generation
	answered  uint64      // last input message answered after a replay
	unsaved   time.Time   // time of the first answered message without a snapshot; zero = none
	freed     []freedRows // in order
	wait      store.Backoff
	notBefore time.Time // no upload before this time, after failures
}

// stored is a stored snapshot not named by a record yet.
type stored struct {
	name string
	seq  uint64    // last input message in the snapshot
	at   time.Time // the snapshot's messages were answered by this time
	home uint64    // see storing.home
}

// freedRows are stored rows no longer named by a snapshot after seq.
type freedRows struct {
	seq  uint64
	rows []uint64
}

// nowhere is the home of a lost snapshot.
const nowhere = ^uint64(0)

// noteRestored records the snapshot from which the state was restored.
func (s *storing) noteRestored(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = seq
}

// noteLost records the loss of the record's snapshot.
func (s *storing) noteLost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.home = nowhere
}

// isLost reports a state rebuilt without the record's snapshot, and not yet in another
// named snapshot.
func (s *storing) isLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.home == nowhere
}

// isUploading reports whether a snapshot is in upload.
func (s *storing) isUploading() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uploading
}

// uploadEnds records the end of the upload.
func (s *storing) uploadEnds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uploading = false
}

// uploadFailed records a failed upload: the next upload waits, longer after each
// failure.
func (s *storing) uploadFailed(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notBefore = now.Add(s.wait.Next())
}

// isBusy reports whether no snapshot can be uploaded now; the lock is held.
func (s *storing) isBusy(now time.Time) bool { return s.uploading || now.Before(s.notBefore) }

// noteArrived records a stored snapshot, for the next commit to name.
func (s *storing) noteArrived(now *stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = now
	s.wait.Reset()
}

// unnamedSnapshot returns the stored snapshot that waits for a commit; nil = none.
func (s *storing) unnamedSnapshot() *stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// noteNamed records that a stored record names a snapshot after seq. noteNamed returns
// the stored rows no longer named by any snapshot, if the snapshot has changed.
func (s *storing) noteNamed(name string, seq uint64, another bool) (rows []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.ready; now != nil && now.name == name { // perhaps the same name as before: see Saving
		s.home, s.ready, s.unsaved = now.home, nil, time.Time{}
		if s.answered > now.seq {
			s.unsaved = now.at
		}
	}
	if !another {
		return nil
	}
	s.saved = seq
	for len(s.freed) > 0 && s.freed[0].seq <= seq {
		rows = append(rows, s.freed[0].rows...)
		s.freed = s.freed[1:]
	}
	return rows
}

// noteAnswer records that the input up to message seq is answered.
func (s *storing) noteAnswer(seq uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = seq
	if seq > s.saved && s.unsaved.IsZero() {
		s.unsaved = now
	}
}

// unsavedSince returns the time of the first answered message without a snapshot; zero
// = none. Messages answered before the ownership have no age here.
func (s *storing) unsavedSince() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsaved.Round(0) // on the wall clock: a suspended machine stores nothing meanwhile
}
