package outbox

import (
	"errors"
	"syscall"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// An outbox on a small disk works as long as the waiting batches fit. An outbox on a
// full disk continues without help when the server has stored some batches.
func TestSmallDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		parts.Absent(t, "diskfull", "a full disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	l, _ := openLog(t, dir)
	seq := uint64(0)
	next := func() (*Batch, error) {
		b := &Batch{Message: &producer.Message{Subject: "k", Incarnation: "I", Seq: seq + 1, Payload: make([]byte, 1000)}}
		err := l.Put(b)
		if err == nil {
			seq++
		}
		return b, err
	}
	for range 20_000 {
		b, err := next()
		if err == nil {
			err = l.Done(b)
		}
		if err != nil {
			t.Fatalf("after %d batches, none of which waits: %v", seq, err)
		}
	}
	for range 2 {
		var wait []*Batch
		b, err := next()
		for ; err == nil; b, err = next() {
			wait = append(wait, b)
		}
		if !errors.Is(err, syscall.ENOSPC) || len(wait) < 2000 {
			t.Fatalf("after %d batches that wait: %v", len(wait), err)
		}
		for _, b := range wait[:len(wait)/2] {
			_ = l.Done(b) // there is no space for the records of the first segment
		}
		if b, err = next(); err != nil {
			t.Fatalf("half of what filled the disk is stored: %v", err)
		}
		for _, b := range append(wait[len(wait)/2:], b) {
			if err := l.Done(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.Close()
	if l, left := openLog(t, dir); len(left) > 0 || l.Number("k").Seq != seq {
		t.Errorf("%d batches wait, and the last number is %d, want none and %d", len(left), l.Number("k").Seq, seq)
	}
}

// An outbox on a full disk opens, returns the waiting batches, and continues when the server
// has stored some batches.
func TestOpensOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		parts.Absent(t, "diskfull", "a full disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	l, _ := openLog(t, dir)
	seq := uint64(0)
	var err error
	for err == nil {
		seq++
		err = l.Put(&Batch{Message: &producer.Message{Subject: "k", Incarnation: "I", Seq: seq, Payload: make([]byte, 1000)}})
	}
	l.Close()
	l, left := openLog(t, dir)
	if len(left) != int(seq)-1 || l.Number("k").Seq != seq-1 {
		t.Fatalf("%d batches wait, the last number is %d, want %d", len(left), l.Number("k").Seq, seq-1)
	}
	next := &Batch{Message: &producer.Message{Subject: "k", Incarnation: "I", Seq: seq, Payload: make([]byte, 1000)}}
	if err := l.Put(next); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a batch on a full disk: %v", err)
	}
	for i, b := range left {
		if _, err := l.Payload(b); err != nil {
			t.Fatal(err)
		}
		if err := l.Done(b); i > len(left)/2 && err != nil {
			t.Fatalf("half of what filled the disk is stored: %v", err)
		}
	}
	if err := l.Put(next); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if l, left := openLog(t, dir); len(left) != 1 || l.Number("k").Seq != seq {
		t.Errorf("%d batches wait, the last number is %d, want 1 and %d", len(left), l.Number("k").Seq, seq)
	}
}
