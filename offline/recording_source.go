package offline

import (
	"context"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// recordingSource is the streams of a recording, read row group by row group. Each reading reopens the files.
type recordingSource struct {
	from     *archive.Recording
	channels int
	class    map[string]int // of each label
}

func (t *recordingSource) word() string { return "stream" }

func (t *recordingSource) policy(p reservoir.Policy) reservoir.Policy { return p }

// streams numbers the streams of a recording. As in the stage, a stream ended by silence restarts with its next
// sample; all streams restart if samples are missing between two files.
type streams struct {
	number map[string]int
	ids    []string
	open   []bool
	rows   map[int][]int // of each stream in the chunk in hand
	silent map[int]bool  // streams that silence ends in it
}

// nameOf distinguishes streams: in a job's recording, two keys can have the same stream name.
func nameOf(c *archive.RecordingChunk, r int) string {
	if c.Origin.Key == nil || c.Origin.Key[r] == c.Stream[r] {
		return c.Stream[r]
	}
	return c.Origin.Key[r] + "\x00" + c.Stream[r]
}

// sort gives the rows of a chunk to their streams, which are listed by their first
// row.
func (s *streams) sort(c *archive.RecordingChunk) (order []int) {
	clear(s.rows)
	clear(s.silent)
	for r := range c.Stream {
		name := nameOf(c, r)
		n, known := s.number[name]
		if !known {
			n = len(s.ids)
			s.number[name], s.ids, s.open = n, append(s.ids, c.Stream[r]), append(s.open, true)
		}
		if len(s.rows[n]) == 0 {
			order = append(order, n)
		}
		s.rows[n] = append(s.rows[n], r)
		if c.SilentAt(r) {
			s.silent[n] = true
			delete(s.number, name)
		}
	}
	return order
}

// end ends the open streams, in their order.
func (s *streams) end(yield func(*chunk) error) error {
	for n, id := range s.ids {
		if !s.open[n] {
			continue
		}
		s.open[n] = false
		if err := yield(&chunk{stream: n, id: id, last: true}); err != nil {
			return err
		}
	}
	clear(s.number)
	return nil
}

func (t *recordingSource) read(ctx context.Context, yield func(*chunk) error) error {
	s := &streams{number: map[string]int{}, rows: map[int][]int{}, silent: map[int]bool{}}
	err := t.from.Each(ctx, func(c *archive.RecordingChunk) error {
		if c.Restarts {
			if err := s.end(yield); err != nil {
				return err
			}
		}
		for _, n := range s.sort(c) {
			p := t.gather(c, s.rows[n])
			p.stream, p.id, p.last = n, s.ids[n], s.silent[n]
			s.open[n] = !p.last
			if err := yield(p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.end(yield)
}

// classOf returns the class of a label, or -1.
func (t *recordingSource) classOf(label string) int {
	if class, known := t.class[label]; known {
		return class
	}
	return -1
}

// gather makes a chunk from the rows of one stream.
func (t *recordingSource) gather(c *archive.RecordingChunk, rows []int) *chunk {
	p := &chunk{counts: t.from.TellsPredictions() || c.Number != nil}
	for _, r := range rows {
		p.values = append(p.values, c.Values[r*t.channels:(r+1)*t.channels]...)
		p.times, p.ends, p.seqs = append(p.times, c.Time[r]), append(p.ends, c.End[r]), append(p.seqs, c.Seq[r])
		p.labels = append(p.labels, t.classOf(c.Label[r]))
		if c.Origin.Key != nil {
			p.flags = append(p.flags, outcome.Flag(c.Origin.Flags[r]))
		}
		if c.Number != nil {
			p.numbers = append(p.numbers, c.Number[r])
		}
		if c.Group != nil {
			p.groups = append(p.groups, c.Group[r])
		}
		if c.Told != nil {
			p.told = append(p.told, t.classOf(c.Told[r]))
		}
	}
	p.silent = len(rows) > 0 && c.SilentAt(rows[len(rows)-1])
	return p
}

// openLabeled reads a recording once: for its classes, and for its identity. Numbers of the column target are
// learned, unless target is empty.
func openLabeled(ctx context.Context, from archive.RecordingFiles, target string, rule *groups.Rule) (src labeledData, err error) {
	column := ""
	if rule != nil {
		column, _ = rule.Column()
	}
	rec, err := from.Open(target, column)
	if err != nil {
		return src, err
	}
	if err := rec.Scan(ctx); err != nil {
		return src, err
	}
	src.sites = groups.NewTable(rule)
	src.name, src.channels = rec.RecordingInfo.Name, rec.RecordingInfo.Channels
	src.what = fmt.Sprintf("recording %q", src.name)
	src.target, src.classes = target, rec.Classes
	src.fingerprint = func() string { return rec.Fingerprint }
	src.sampleSource = &recordingSource{rec, len(src.channels), rec.Class}
	return src, nil
}
