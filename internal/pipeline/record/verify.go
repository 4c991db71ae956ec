package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Verified is the result of a check of a recording.
type Verified struct {
	Files       int    `json:"files"`
	Samples     uint64 `json:"samples"`     // in these files
	Fingerprint string `json:"fingerprint"` // of the whole recording
	// Files compared with the log; the log no longer has the messages of earlier files.
	Compared int    `json:"compared"`
	First    string `json:"first,omitempty"` // of the compared files
}

// Check is a check of a recording.
type Check struct {
	Dir, Name string
	Files     Files
	Asked     inlog.Asked // except From and Streams, which the recording contains
	Machine   func() (*state.Machine, error)
	Takes     func(words string) (func(stream string) bool, error)
	LogFirst  uint64 // the first message of the log
	Open      func(ctx context.Context, r Range, after inlog.Place) (inlog.Source, error)
	Progress  func(file int, of int)
}

// ErrDiffers reports a recording different from the log, or from the recording's own
// position.
var ErrDiffers = errors.New("it differs")

// checked is a file with samples that match the position.
type checked struct {
	path string
	meta map[string]string
	at   Position
}

// Run re-reads all files, and the part of the log that the files cover.
func (c *Check) Run(ctx context.Context) (Verified, error) {
	var v Verified
	files, err := c.listFiles(ctx)
	if err != nil {
		return v, err
	}
	if len(files) == 0 {
		return v, fmt.Errorf("record: %s has no file of a recording of job %q: %w", c.Dir, c.Name, os.ErrNotExist)
	}
	last := files[len(files)-1]
	v.Files, v.Fingerprint = len(files), last.at.Total.Fingerprint
	for i := range files {
		v.Samples += files[i].at.Part.Samples
	}
	// The state before a file is in the previous file; the first file has none.
	from := slices.IndexFunc(files, func(f checked) bool {
		begin := f.at.After.Seq + 1
		if f.at.File == 1 {
			begin = f.at.Begin
		}
		return begin >= c.LogFirst && (f.at.File == 1 || files[0].at.File < f.at.File)
	})
	if from < 0 {
		return v, nil
	}
	v.First = filepath.Base(files[from].path)
	v.Compared, err = c.compareFiles(ctx, files, from)
	return v, err
}

// listFiles reads all files by themselves.
func (c *Check) listFiles(ctx context.Context) (all []checked, err error) {
	names, err := os.ReadDir(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	for _, e := range names { // in order
		if _, ok := numberOf(c.Name, e.Name()); !ok {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f := checked{path: filepath.Join(c.Dir, e.Name())}
		if err := c.checkFile(&f); err != nil {
			return nil, fmt.Errorf("record: %s: %w", f.path, err)
		}
		if n := len(all); n > 0 {
			before := all[n-1]
			switch {
			case f.at.Recording != before.at.Recording:
				return nil, fmt.Errorf("record: %s and %s are of two recordings: %w", before.path, f.path, ErrOther)
			case f.at.File != before.at.File+1:
				return nil, fmt.Errorf("record: %s: the file before it is missing: %w", f.path, ErrDiffers)
			case f.at.After != before.at.To:
				return nil, fmt.Errorf("record: %s begins after message %d of the log, but the file before it ends with %d: %w", f.path, f.at.After.Seq, before.at.To.Seq, ErrDiffers)
			}
		}
		all = append(all, f)
		if c.Progress != nil {
			c.Progress(len(all), 0)
		}
	}
	return all, nil
}

// checkFile recomputes the fingerprint of a file.
func (c *Check) checkFile(f *checked) (err error) {
	var s fileSum
	if f.meta, err = c.Files.Read(f.path, s.addRows); err != nil {
		return err
	}
	if f.at, err = decodePosition(f.meta); err != nil {
		return err
	}
	if err := s.addEnds(f.meta); err != nil {
		return err
	}
	if got := s.sum.String(); got != f.at.Part.Fingerprint || s.samples != f.at.Part.Samples {
		return fmt.Errorf("its %d samples have the fingerprint %s, but its header has %d with %s: %w", s.samples, got, f.at.Part.Samples, f.at.Part.Fingerprint, ErrDiffers)
	}
	return nil
}

// fileSum computes the fingerprint of a file's samples.
type fileSum struct {
	sum     wire.Digest
	samples uint64
	next    int64   // number of the next sample, 0 before the first
	ended   []int64 // samples with an end mark
	buf     []byte
}

func (s *fileSum) addRows(r *Rows) error {
	for i, number := range r.Number {
		if s.next != 0 && number != s.next {
			return fmt.Errorf("sample %d follows sample %d: %w", number, s.next-1, ErrDiffers)
		}
		s.next = number + 1
		var h wire.Digest
		h, s.buf = r.hashRow(s.buf, i, len(r.Values)/r.Len())
		s.sum.Add(h)
		s.samples++
		if r.End[i] {
			s.ended = append(s.ended, number)
		}
	}
	return nil
}

// addEnds adds the ends of sequences: marks of samples, and lists in the metadata.
func (s *fileSum) addEnds(meta map[string]string) error {
	later, err := decodeNumbers(meta, keyEnds)
	if err != nil {
		return err
	}
	silent, err := decodeNumbers(meta, keySilent)
	if err != nil {
		return err
	}
	isSilent := map[int64]bool{}
	for _, n := range silent {
		isSilent[n] = true
		s.sum.Add(hashOfEnd(n, true))
	}
	for _, n := range append(s.ended, later...) {
		if !isSilent[n] {
			s.sum.Add(hashOfEnd(n, false))
		}
	}
	return nil
}

// compareFiles repeats the recording of the files from index from on, without writing,
// and returns how many are equal.
func (c *Check) compareFiles(ctx context.Context, files []checked, from int) (equal int, err error) {
	first := files[from]
	if differs := c.compareAsked(first.at.Asked).Differs(first.at.Asked); differs != "" {
		return 0, fmt.Errorf("record: %s: %w: %s", c.Dir, ErrOther, differs)
	}
	t, err := c.resumeTaker(files, from)
	if err != nil {
		return 0, err
	}
	src, err := c.Open(ctx, Range{Begin: first.at.Begin, First: first.at.First, Last: files[len(files)-1].at.To.Seq}, first.at.After)
	if err != nil {
		return 0, err
	}
	if closer, ok := src.(io.Closer); ok {
		defer closer.Close()
	}
	removed := uint64(0)
	for i := from; i < len(files); {
		m, err := src.Next(ctx)
		over := errors.Is(err, io.EOF)
		if err != nil && !over {
			return equal, err
		}
		for ; i < len(files) && (over || m.Seq > files[i].at.To.Seq); i++ {
			f := files[i]
			gone := src.Removed() - removed - f.at.Part.Removed
			if err := c.compareRows(t, &f, int64(gone)); err != nil {
				return equal, err
			}
			removed = src.Removed()
			equal++
			if c.Progress != nil {
				c.Progress(equal, len(files)-from)
			}
		}
		if over {
			break
		}
		if err := t.takeMessage(m); err != nil {
			return equal, err
		}
		t.rows.clearRows()
	}
	return equal, nil
}

// resumeTaker returns a taker with the state before the file of index from.
func (c *Check) resumeTaker(files []checked, from int) (*taker, error) {
	first := files[from].at
	m, err := c.Machine()
	if err != nil {
		return nil, err
	}
	takes, err := c.Takes(first.Asked.Streams)
	if err != nil || first.File == 1 {
		return newTaker(m, nil, nil, takes, first.First, 0), err
	}
	before := files[from-1]
	part, open, err := decodeState(before.meta, m.Shape)
	if err != nil {
		return nil, fmt.Errorf("record: %s: %w", before.path, err)
	}
	return newTaker(m, part, open, takes, first.First, before.at.Total.Samples), nil
}

// compareRows compares the collected samples with a file, and begins the next file.
func (c *Check) compareRows(t *taker, f *checked, gone int64) error {
	if f.at.Released {
		if err := t.releaseWaiting(); err != nil {
			return err
		}
		t.rows.clearRows()
	}
	got, samples := t.sum.String(), t.done.Samples
	t.sum, t.done, t.dead, t.ends, t.silent = wire.Digest{}, Done{}, nil, t.ends[:0], t.silent[:0]
	switch {
	case got == f.at.Part.Fingerprint && samples == f.at.Part.Samples:
		return nil
	case gone != 0:
		return fmt.Errorf("record: %s cannot be compared: %d of its messages were removed from the log since: %w", f.path, gone, ErrDiffers)
	}
	return fmt.Errorf("record: %s has %d samples with the fingerprint %s, but the log makes %d of its messages, with %s: %w", f.path, f.at.Part.Samples, f.at.Part.Fingerprint, samples, got, ErrDiffers)
}

// compareAsked returns the expected request of the recording.
func (c *Check) compareAsked(of inlog.Asked) inlog.Asked {
	a := c.Asked
	a.From, a.Streams = of.From, of.Streams
	return a
}
