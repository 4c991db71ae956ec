package imports

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// addChannels adds channels that come from files or from a column of sensors, by the
// patterns of the options. keep has the numbers of the used channels.
func (s *tableSet) addChannels(found []string) (keep []int, err error) {
	columns := make([]Column, len(found))
	for i, name := range found {
		columns[i] = Column{Name: name, Kind: kindChannel, Unit: guessUnit(name)}
	}
	if err := s.t.choose(columns); err != nil {
		return nil, fmt.Errorf("offline: %w; the sensors are %s", err, clip(fmt.Appendf(nil, "%q", found)))
	}
	s.columns = append(s.columns, columns...)
	for i := range columns {
		if columns[i].Kind == kindChannel {
			keep, s.Channels = append(keep, i), append(s.Channels, columns[i].Name)
		}
	}
	s.findProfiles()
	return keep, nil
}

// runsReader reads tables in which a row is a run of one sensor: file f has the values of
// sensor f, and row n of all files is stream n. A sensor with more values than the
// shortest gives the mean of as many values for each sample.
type runsReader struct {
	set   *tableSet
	files []rowReader
	keep  []int
	run   int
	rows  [][]float32 // of the current run, of each kept file
	next  int         // sample
	size  int         // samples of the run
}

func (s *tableSet) openRuns() (sampleReader, error) {
	r := &runsReader{set: s}
	var sensors []string
	for _, file := range s.files {
		sensors = append(sensors, file.stream)
	}
	var err error
	if r.keep, err = s.addChannels(sensors); err == nil && len(r.keep) > mostSensors {
		err = fmt.Errorf("offline: %d files of sensors, want at most %d", len(r.keep), mostSensors)
	}
	for _, i := range r.keep {
		if err != nil {
			break
		}
		var rows rowReader
		if rows, err = s.openTable(s.files[i].path); err == nil {
			r.files = append(r.files, rows)
		}
	}
	s.next = len(s.files)
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// readRun reads the next run.
func (r *runsReader) readRun() error {
	r.rows, r.size, r.next = make([][]float32, len(r.files)), math.MaxInt, 0
	r.run++
	for f, rows := range r.files {
		fields, err := rows.readRow()
		if err != nil && err != io.EOF {
			return err
		}
		if f > 0 && (err == nil) != (r.rows[0] != nil) {
			return rows.errorf("run %d: the file has another number of rows than the first file", r.run)
		}
		if err == io.EOF {
			continue
		}
		d, _ := rows.form()
		for i, field := range fields {
			v, ok := parseCell(trimField(field), d.decimal)
			if !ok {
				return rows.errorf("column %d: want a finite number, got %q", i+1, clip(field))
			}
			r.rows[f] = append(r.rows[f], v)
		}
		r.size = min(r.size, len(fields))
	}
	if r.rows[0] == nil {
		r.rows = nil
		return io.EOF
	}
	for f, values := range r.rows {
		if len(values)%r.size != 0 {
			return r.files[f].errorf("run %d has %d values, which is no multiple of the %d of another sensor", r.run, len(values), r.size)
		}
		if r.run == 1 && len(values) > r.size {
			r.set.addNote("%s: the mean of %d values is one sample", filepath.Base(r.set.files[r.keep[f]].path), len(values)/r.size)
		}
	}
	return nil
}

func (r *runsReader) readSample(c *archive.RecordingChunk) error {
	if r.next == r.size || r.rows == nil {
		if err := r.readRun(); err != nil {
			return err
		}
	}
	for _, values := range r.rows {
		n := len(values) / r.size
		sum := 0.
		for _, v := range values[r.next*n : (r.next+1)*n] {
			sum += float64(v)
		}
		c.Values = append(c.Values, float32(sum/float64(n)))
	}
	r.next++
	p := sample{stream: fmt.Sprintf("run-%05d", r.run), seq: int64(r.next), time: archive.NoTime, end: r.next == r.size, number: nan}
	return r.set.addSample(c, p)
}

func (r *runsReader) finishRead() (files []archive.SourceFile, err error) { return finishAll(r.files) }

func (r *runsReader) close() {
	for _, rows := range r.files {
		rows.close()
	}
}

func finishAll(all []rowReader) (files []archive.SourceFile, err error) {
	for _, rows := range all {
		file, err := rows.finishRead()
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// sensorsReader merges files of one sensor each: by time if the files have times, else row
// by row.
type sensorsReader struct {
	set   *tableSet
	parts []*sensorPart
	timed bool
	seq   int64
}

// sensorPart is a file of sensors with its next sample.
type sensorPart struct {
	set  *tableSet
	at   archive.RecordingChunk // one sample, or none after the last
	last int64
	keep []int
}

func (s *tableSet) openSensors() (sampleReader, error) {
	r := &sensorsReader{set: s, timed: true}
	if len(s.files) > mostSensors {
		return nil, fmt.Errorf("offline: %d files of sensors, want at most %d", len(s.files), mostSensors)
	}
	var found []string
	var owner []int
	for _, file := range s.files {
		t := s.t
		t.Channels, t.Ignore, t.Files, t.Runs, t.Ends, t.Target = "", "", "", "", false, ""
		part := &sensorPart{set: newTableSet(s.ctx, t, []tableFile{file}, s.progress), last: archive.NoTime}
		r.parts = append(r.parts, part)
		err := part.set.start()
		if err == nil && part.set.columnOf(kindStream) != nil {
			err = fmt.Errorf("offline: %s: a file of a sensor with a column of streams is not supported", file.path)
		}
		if err == nil {
			err = part.advancePart()
		}
		if err != nil {
			r.close()
			return nil, err
		}
		r.timed = r.timed && part.set.columnOf(kindTime) != nil
		for _, channel := range part.set.Channels {
			name := file.stream
			if len(part.set.Channels) > 1 {
				name += "-" + channel
			}
			found, owner = append(found, name), append(owner, len(r.parts)-1)
		}
	}
	keep, err := s.addChannels(found)
	if err != nil {
		r.close()
		return nil, err
	}
	before := make([]int, len(found)) // number of the channel in its file
	for i := range found {
		if i > 0 && owner[i] == owner[i-1] {
			before[i] = before[i-1] + 1
		}
	}
	for _, i := range keep {
		r.parts[owner[i]].keep = append(r.parts[owner[i]].keep, before[i])
	}
	s.next = len(s.files)
	return r, nil
}

// advancePart reads the next sample of a file.
func (p *sensorPart) advancePart() error {
	p.at.Reset()
	err := p.set.reader.readSample(&p.at)
	if err == io.EOF {
		p.at.Reset()
		return nil
	}
	if err == nil && p.at.Time[0] != archive.NoTime {
		if p.at.Time[0] <= p.last {
			return p.set.reader.(*csvReader).rows.errorf("the time is not later than that of the previous row: sort the file by time, and leave repeated times out")
		}
		p.last = p.at.Time[0]
	}
	return err
}

func (r *sensorsReader) readSample(c *archive.RecordingChunk) error {
	at, err := r.findTime()
	if err != nil {
		return err
	}
	s := sample{stream: r.set.setName(), seq: r.seq + 1, time: at, number: nan}
	for _, p := range r.parts {
		here := p.at.Rows() > 0 && (!r.timed || p.at.Time[0] == at)
		for _, k := range p.keep {
			v := nan32
			if here {
				v = p.at.Values[k]
			}
			c.Values = append(c.Values, v)
		}
		if !here {
			continue
		}
		if p.at.Label[0] != "" {
			s.label = p.at.Label[0]
		}
		if err := p.advancePart(); err != nil {
			return err
		}
	}
	r.seq++
	return r.set.addSample(c, s)
}

// findTime finds the time of the next sample, the earliest of all files; io.EOF after the
// last.
func (r *sensorsReader) findTime() (int64, error) {
	at, live := int64(math.MaxInt64), 0
	for _, p := range r.parts {
		if p.at.Rows() > 0 {
			live++
			if r.timed && p.at.Time[0] == archive.NoTime {
				return 0, p.set.reader.(*csvReader).rows.errorf("a row without time")
			}
			at = min(at, p.at.Time[0])
		}
	}
	switch {
	case live == 0:
		return 0, io.EOF
	case !r.timed && live < len(r.parts):
		return 0, fmt.Errorf("offline: the files of sensors have no times, and different numbers of rows: %d of %d files end after row %d", len(r.parts)-live, len(r.parts), r.seq)
	case !r.timed:
		at = archive.NoTime
	}
	return at, nil
}

// setName returns the name of the only stream of several files: the name of their folder.
func (s *tableSet) setName() string {
	folder, err := filepath.Abs(filepath.Dir(s.files[0].path))
	if name := filepath.Base(folder); err == nil && names.Check("stream", name) == nil && strings.Trim(name, "/.") != "" {
		return name
	}
	return "stream"
}

func (r *sensorsReader) finishRead() (files []archive.SourceFile, err error) {
	var all []rowReader
	for _, p := range r.parts {
		all = append(all, p.set.reader.(*csvReader).rows)
		r.set.clock = p.set.clock
	}
	return finishAll(all)
}

func (r *sensorsReader) close() {
	for _, p := range r.parts {
		p.set.close()
	}
}
