package imports

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// longReader reads tables with a row for each value: time, sensor and value. The samples of
// a stream are all its times, with missing values of sensors without value at a time.
type longReader struct {
	set     *tableSet
	entries []longEntry // ordered by stream, time and sensor
	streams []string
	numbers map[string]int32 // of the streams
	found   []string         // sensors
	known   map[string]int32 // numbers of the sensors
	sensors int              // that are channels
	next    int
}

type longEntry struct {
	time           int64
	stream, sensor int32
	value          float32
}

// mostEntries bounds the memory of a longReader: 24 bytes each.
const mostEntries = 1 << 27

// openLong reads all rows of long tables. The first file is open.
func (s *tableSet) openLong() (sampleReader, error) {
	if s.columnOf(kindTime) == nil {
		return nil, s.reader.(*csvReader).rows.errorf("a table with a column of sensors requires a column of times")
	}
	l := &longReader{set: s, numbers: map[string]int32{}, known: map[string]int32{}}
	for {
		err := l.readFile(s.reader.(*csvReader))
		if err == nil {
			if err = s.finishReader(); err == nil {
				err = s.openNext()
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	found := l.found
	keep, err := s.addChannels(found)
	if err != nil {
		return nil, err
	}
	place := make([]int32, len(found))
	for i := range place {
		place[i] = int32(slices.Index(keep, i))
	}
	l.sensors = len(keep)
	kept := l.entries[:0]
	for _, e := range l.entries {
		if e.sensor = place[e.sensor]; e.sensor >= 0 {
			kept = append(kept, e)
		}
	}
	l.entries = kept
	slices.SortStableFunc(l.entries, func(a, b longEntry) int {
		return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.time, b.time), cmp.Compare(a.sensor, b.sensor))
	})
	return l, nil
}

// readFile reads the values of a file.
func (l *longReader) readFile(r *csvReader) error {
	header, err := l.set.t.columnNames(r.rows)
	if err != nil {
		return err
	}
	places := map[string]int{}
	for i, name := range header {
		places[name] = i
	}
	sensor, err := l.set.locate(places, kindSensor)
	value, bad := l.set.locate(places, kindValue)
	if err != nil || bad != nil || value < 0 {
		return r.rows.errorf("want a column of sensors and a column of values")
	}
	for {
		row, err := r.rows.readRow()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := l.addValue(r, row, sensor, value); err != nil {
			return r.rows.errorf("%w", err)
		}
	}
}

// addValue adds a row.
func (l *longReader) addValue(r *csvReader, row [][]byte, sensor, value int) error {
	stream, name := r.stream, string(trimField(row[sensor]))
	if r.indexes.stream >= 0 {
		stream = string(trimField(row[r.indexes.stream]))
	}
	at, err := l.set.clock.parseTime(trimField(row[r.indexes.time]), r.decimal)
	if err := cmp.Or(err, names.Check("stream", stream), names.Check("sensor", name)); err != nil {
		return err
	}
	if stream == "" || name == "" || at == archive.NoTime {
		return errors.New("the stream, the sensor or the time is empty")
	}
	e := longEntry{time: at}
	var ok bool
	if e.value, ok = parseCell(trimField(row[value]), r.decimal); !ok {
		return fmt.Errorf("value of sensor %q: want a finite number, or nothing, got %q", names.Cut(name, 40), clip(row[value]))
	}
	if e.sensor, ok = l.known[name]; !ok {
		e.sensor = int32(len(l.found))
		l.known[name], l.found = e.sensor, append(l.found, name)
	}
	if e.stream, ok = l.numbers[stream]; !ok {
		e.stream = int32(len(l.streams))
		l.numbers[stream], l.streams = e.stream, append(l.streams, stream)
	}
	switch {
	case len(l.found) > mostLongSensors:
		return fmt.Errorf("more than %d sensors", mostLongSensors)
	case len(l.entries) == mostEntries:
		return fmt.Errorf("more than %d values in a table with a row for each value", mostEntries)
	}
	l.entries = append(l.entries, e)
	return nil
}

// mostLongSensors bounds the channels of a long table.
const mostLongSensors = 4096

func (l *longReader) readSample(c *archive.RecordingChunk) error {
	if l.next == len(l.entries) {
		return io.EOF
	}
	first := l.entries[l.next]
	from := len(c.Values)
	for range l.sensors {
		c.Values = append(c.Values, nan32)
	}
	before := int32(-1)
	for ; l.next < len(l.entries); l.next++ {
		e := l.entries[l.next]
		if e.stream != first.stream || e.time != first.time {
			break
		}
		if e.sensor == before {
			return fmt.Errorf("offline: stream %q has two values of sensor %q at one time (%d ns since 1970)", names.Cut(l.streams[e.stream], 40), names.Cut(l.set.Channels[e.sensor], 40), e.time)
		}
		before = e.sensor
		c.Values[from+int(e.sensor)] = e.value
	}
	stream := l.streams[first.stream]
	return l.set.addSample(c, sample{stream: stream, seq: l.set.last[stream] + 1, time: first.time, number: nan})
}

func (l *longReader) finishRead() ([]archive.SourceFile, error) { return nil, nil }
func (l *longReader) close()                                    {}
