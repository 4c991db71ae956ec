package imports

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/timeunit"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// tableSet reads the tables of a recording, one sample at a time.
type tableSet struct {
	Channels []string

	ctx      context.Context
	progress archive.Progress
	t        Table
	files    []tableFile
	next     int // file
	reader   sampleReader
	budget   int64
	width    int // usual number of columns of files without header; 0: unknown
	columns  []Column
	named    map[string]bool // names of the columns
	profiles []*Profile
	sources  []archive.SourceFile
	notes    []string

	every  int64 // ns between samples without a column of times
	clock  clock
	pace   pace
	rule   *regexp.Regexp
	known  []string // keys of Table.Classes
	labels map[string]int64
	last   map[string]int64 // seq of each stream's latest sample
	times  map[string]int64 // time of this sample; nil: not kept
	ends   *streamEnds
	runs   *runTable
	kept   numberRange // samples of each stream

	streams map[string]*streamState
	current *streamState // of the previous sample
	before  string       // stream of the previous sample
	renamed [2]string    // label of the previous sample, and its name by Table.Classes
}

// streamState is what the names of streams determine.
type streamState struct {
	number int    // of the stream, in the order of the files
	label  string // by the rule; "": none
	rows   int64  // samples
}

// findStream returns the state of a stream.
func (s *tableSet) findStream(name string) *streamState {
	if known := s.streams[name]; known != nil {
		return known
	}
	of := &streamState{number: len(s.streams)}
	if s.rule != nil {
		if m := s.rule.FindStringSubmatch(name); m != nil {
			of.label = m[1]
		}
	}
	s.streams[name] = of
	return of
}

// sampleReader reads the samples of one or several tables.
type sampleReader interface {
	readSample(*archive.RecordingChunk) error // io.EOF after the last
	finishRead() ([]archive.SourceFile, error)
	close()
}

// sample is a sample without its values.
type sample struct {
	stream, label, group string
	seq, time            int64
	end                  bool
	number               float64
}

// streamEnds are the last samples of all streams.
type streamEnds struct{ seq, time map[string]int64 }

// openTables opens the tables of a recording at path.
func openTables(ctx context.Context, path string, t Table, progress archive.Progress) (*tableSet, error) {
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	paths, err := TableFiles(path)
	if err == nil && t.Runs != "" {
		paths = slices.DeleteFunc(paths, func(p string) bool { return p == t.Runs })
	}
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("offline: no table in %s: want files that end in %v, or the same with .gz", path, tableEndings)
	}
	files, err := nameStreams(paths)
	if err != nil {
		return nil, err
	}
	s := newTableSet(ctx, t, files, progress)
	if s.rule, err = t.labelRule(); err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	if err := s.start(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func newTableSet(ctx context.Context, t Table, files []tableFile, progress archive.Progress) *tableSet {
	s := &tableSet{ctx: ctx, t: t, files: files, progress: progress, budget: math.MaxInt64, last: map[string]int64{}, labels: map[string]int64{}, streams: map[string]*streamState{}}
	s.known = slices.Sorted(maps.Keys(t.Classes))
	if i := names.ClassIndex(s.known, ""); i >= 0 {
		s.renamed[1] = t.Classes[""]
	}
	if d, err := t.interval(); err == nil {
		s.every = int64(d)
	}
	s.kept, _ = t.sampleRange()
	if t.TimeUnit != "" {
		s.clock = clock{unit: t.TimeUnit, given: true, known: true}
	}
	s.clock.dates = t.Dates
	if t.Zone != "" {
		s.clock.zone, _ = parseZone(t.Zone) // Check has refused others
	}
	return s
}

// start reads what is required before the first sample.
func (s *tableSet) start() (err error) {
	if s.t.counts() || s.t.Ends && s.t.Rows != RowsRuns {
		if err := s.findEnds(); err != nil {
			return err
		}
	}
	if s.t.Runs != "" {
		if s.runs, err = s.readRuns(); err != nil {
			return err
		}
	}
	switch {
	case s.t.Rows == RowsRuns:
		s.reader, err = s.openRuns()
	case s.t.Files == FilesSensors:
		s.reader, err = s.openSensors()
	default:
		if err = s.findWidth(); err == nil {
			err = s.openNext()
		}
		if err == nil && s.every > 0 && s.columnOf(kindTime) != nil {
			return s.reader.(*csvReader).rows.errorf("the table has a column of times, %q: want no interval with it, or ignore the column", names.Cut(s.columnOf(kindTime).Name, 40))
		}
		if err == nil && s.columnOf(kindSensor) != nil {
			s.reader, err = s.openLong()
		}
	}
	return err
}

// findEnds reads all samples once, for the end of each stream.
func (s *tableSet) findEnds() error {
	t := s.t
	t.Target, t.Ends, t.Runs = "", false, ""
	if t.column(kindLabel) != "" {
		t.Label = "" // it may be a column of the other table
	}
	first := newTableSet(s.ctx, t, s.files, s.progress)
	first.times = map[string]int64{}
	defer first.close()
	if err := first.start(); err != nil {
		return err
	}
	var c archive.RecordingChunk
	for {
		c.Reset()
		if err := first.readSamples(&c, chunkRows); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	s.ends = &streamEnds{first.last, first.times}
	return nil
}

// chunkRows are enough samples for cheap calls.
const chunkRows = 4096

// openNext opens the next file; io.EOF after the last.
func (s *tableSet) openNext() error {
	if s.next == len(s.files) {
		return io.EOF
	}
	file := s.files[s.next]
	s.next++
	rows, err := s.openTable(file.path)
	if err != nil {
		return err
	}
	r, err := s.readColumns(rows, file.stream)
	if err != nil {
		rows.close()
		return err
	}
	s.reader = r
	return nil
}

// readSamples appends up to limit samples to c; it returns io.EOF at the end.
func (s *tableSet) readSamples(c *archive.RecordingChunk, limit int) error {
	for n := 0; n < limit; n++ {
		err := s.reader.readSample(c)
		for err == io.EOF && s.next < len(s.files) {
			if err = s.finishReader(); err == nil {
				err = s.openNext()
			}
			if err == nil {
				err = s.reader.readSample(c)
			}
		}
		if err == io.EOF && n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finishReader notes the files of the reader.
func (s *tableSet) finishReader() error {
	files, err := s.reader.finishRead()
	s.sources = append(s.sources, files...)
	s.reader.close()
	return err
}

func (r *csvReader) finishRead() ([]archive.SourceFile, error) {
	file, err := r.rows.finishRead()
	return []archive.SourceFile{file}, err
}

func (r *csvReader) close() { r.rows.close() }

func (s *tableSet) close() {
	if s.reader != nil {
		s.reader.close()
	}
}

func (s *tableSet) addNote(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// addSample appends a sample, whose values c has, to c, or removes the values of a sample that is not kept.
func (s *tableSet) addSample(c *archive.RecordingChunk, p sample) error {
	if err := s.completeSample(&p); err != nil {
		return err
	}
	s.last[p.stream] = p.seq
	if s.times != nil {
		s.times[p.stream] = p.time
	}
	if s.current.rows++; s.current.rows < s.kept.from || s.current.rows > s.kept.to {
		c.Values = c.Values[:len(c.Values)-len(s.profiles)]
		s.current, s.before = nil, ""
		return nil
	}
	c.Stream, c.Seq, c.Time = append(c.Stream, p.stream), append(c.Seq, p.seq), append(c.Time, p.time)
	c.End, c.Label = append(c.End, p.end), append(c.Label, p.label)
	if s.targetName() != "" {
		c.Number = append(c.Number, p.number)
	}
	if s.groupName() != "" {
		c.Group = append(c.Group, p.group)
	}
	s.describe(c, p)
	return nil
}

// completeSample sets time, label, group, number and end of a sample as the options define
// them.
func (s *tableSet) completeSample(p *sample) error {
	if s.every > 0 && p.time == archive.NoTime {
		var ok bool
		if p.time, ok = timeunit.Nanoseconds(p.seq-1, s.every); !ok {
			return datafile.InContent(fmt.Errorf("stream %q, seq %d: the time is out of the range of 64-bit nanoseconds; use a shorter interval", names.Cut(p.stream, 40), p.seq))
		}
	}
	if s.current == nil || p.stream != s.before {
		s.current = s.findStream(p.stream)
	}
	if err := s.runs.complete(p, s.current.number); err != nil {
		return err
	}
	if s.current.label != "" {
		p.label = s.current.label
	}
	if p.label != s.renamed[0] {
		s.renamed = [2]string{p.label, p.label}
		if i := names.ClassIndex(s.known, p.label); i >= 0 {
			s.renamed[1] = s.t.Classes[s.known[i]]
		}
	}
	p.label = s.renamed[1]
	if err := names.Check("label", p.label); err != nil {
		return err
	}
	if err := names.Check("group", p.group); err != nil {
		return err
	}
	if s.ends != nil {
		s.countDown(p)
	}
	if s.t.Cap > 0 {
		p.number = min(p.number, s.t.Cap)
	}
	return nil
}

// countDown sets the number and the end of a sample by the last sample of its stream.
func (s *tableSet) countDown(p *sample) {
	last := s.ends.seq[p.stream]
	p.end = p.end || s.t.Ends && p.seq == last
	after := 0.
	if s.runs != nil && p.number == p.number {
		after = p.number
	}
	switch end := s.ends.time[p.stream]; {
	case s.t.Target == Remaining:
		p.number = float64(last-p.seq) + after
	case s.t.Target == RemainingTime && p.time != archive.NoTime && end != archive.NoTime:
		p.number = float64(end-p.time)/1e9 + after
	case s.t.Target == RemainingTime:
		p.number = nan
	}
}

// mostLabels bounds the labels of a summary.
const mostLabels = 1000

// describe adds the latest sample to the description of the columns.
func (s *tableSet) describe(c *archive.RecordingChunk, p sample) {
	follows := p.stream == s.before
	s.before = p.stream
	values := c.Values[len(c.Values)-len(s.profiles):]
	for k, profile := range s.profiles {
		profile.addValue(values[k], follows)
	}
	s.pace.addTime(p.stream, p.time)
	if n, known := s.labels[p.label]; known || len(s.labels) < mostLabels {
		s.labels[p.label] = n + 1
	}
}

// targetName returns the name of the column of numbers; "": none.
func (s *tableSet) targetName() string {
	if s.t.counts() {
		return Remaining
	}
	if c := s.columnOf(kindTarget); c != nil {
		return c.Name
	}
	if s.runs != nil && s.runs.number != nil {
		return s.t.Target
	}
	return ""
}

// groupName returns the name of the column of groups; "": none.
func (s *tableSet) groupName() string {
	if c := s.columnOf(kindGroup); c != nil {
		return c.Name
	}
	if s.runs != nil && s.runs.group != nil {
		return s.t.Group
	}
	return ""
}
