package owner

import (
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// storing is how far a partition's states are stored. The shard takes
// snapshots, goroutines of the emitter upload them, a commit names them, and
// Status and the sweep look.
type storing struct {
	mu        sync.Mutex
	uploading bool        // a snapshot is on its way to the store
	ready     *stored     // it is there, and no record names it yet
	saved     uint64      // last input message of the snapshot in the record
	home      uint64      // the bucket it is in, or that there was when the ownership began: store.Snapshots.Generation
	answered  uint64      // last input message that was answered after a replay
	unsaved   time.Time   // since when messages are answered that no snapshot holds; zero = none are
	freed     []freedRows // in order
	wait      store.Backoff
	notBefore time.Time // no other snapshot is uploaded: some have failed
}

// stored is a snapshot in the store that no record names yet.
type stored struct {
	name string
	seq  uint64    // last input message in it
	at   time.Time // no message was answered later that it holds
	home uint64    // see storing.home
}

// freedRows are stored rows that a snapshot after seq names no more.
type freedRows struct {
	seq  uint64
	rows []uint64
}

// nowhere is the home of a snapshot that is lost.
const nowhere = ^uint64(0)

// noteRestored notes which snapshot the state was restored from.
func (s *storing) noteRestored(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = seq
}

// noteLost notes that the snapshot in the record is lost.
func (s *storing) noteLost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.home = nowhere
}

// isLost reports that the state was rebuilt without the snapshot that the
// record names, and that no other is named yet.
func (s *storing) isLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.home == nowhere
}

// isUploading reports whether a snapshot is on its way to the store.
func (s *storing) isUploading() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uploading
}

// uploadEnds notes that it has arrived, or will not.
func (s *storing) uploadEnds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uploading = false
}

// uploadFailed notes that a snapshot was not stored: the next one waits for a while,
// longer each time.
func (s *storing) uploadFailed(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notBefore = now.Add(s.wait.Next())
}

// isBusy reports whether no other snapshot is to be uploaded now; the lock is held.
func (s *storing) isBusy(now time.Time) bool { return s.uploading || now.Before(s.notBefore) }

// noteArrived notes a snapshot that is in the store, for a commit to name it.
func (s *storing) noteArrived(now *stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = now
	s.wait.Reset()
}

// unnamedSnapshot is the snapshot that waits to be named by a commit; nil = none does.
func (s *storing) unnamedSnapshot() *stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// noteNamed notes that the server has a record that names a snapshot after seq. It
// returns the stored rows that nothing names any more, where that is another
// snapshot than before.
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

// noteAnswer notes that the input up to message seq is answered.
func (s *storing) noteAnswer(seq uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = seq
	if seq > s.saved && s.unsaved.IsZero() {
		s.unsaved = now
	}
}

// unsavedSince is since when messages are answered that no snapshot holds; zero
// = none are. What was answered before the ownership has no age here.
func (s *storing) unsavedSince() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsaved.Round(0) // on the wall clock: a machine that was suspended has not stored anything meanwhile
}
