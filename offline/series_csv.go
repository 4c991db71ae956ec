package offline

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// ReadCSV reads a CSV recording (columns as RecordingImport's) as a data set
// without classes: each sequence of a stream is a series, called after the
// stream and counted from 0, in the order in which they begin; the first two
// thirds of them, rounded up, are the training part. With length above 0
// sequences are cut into series of that many samples or a few more: as many as
// there can be, of equal length but for one sample. progress counts the file's
// bytes.
func ReadCSV(ctx context.Context, path string, length int, progress Progress) (*Dataset, error) {
	budget := int64(DefaultMaxValues)
	src, err := openSource(ctx, path, &budget, progress)
	if err != nil {
		return nil, err
	}
	defer src.close()
	r, err := newCSVReader(src)
	if err != nil {
		return nil, err
	}
	sequences, err := r.sequences()
	if err != nil {
		return nil, err
	}
	if len(sequences) == 0 {
		return nil, InContent(fmt.Errorf("%s: no samples after the header line", src.name))
	}
	d := &Dataset{Channels: r.channels, Source: Provenance{Format: "csv"}}
	d.Name, _ = splitName(path)
	counted := map[string]int{}
	for _, s := range sequences {
		n := len(s.values) / len(r.channels)
		pieces := 1
		if length > 0 {
			pieces = max(1, n/length)
		}
		for k := range pieces {
			from, to := n*k/pieces*len(r.channels), n*(k+1)/pieces*len(r.channels)
			d.Series = append(d.Series, Series{
				ID: fmt.Sprintf("%s-%d", s.stream, counted[s.stream]), Split: Test, Label: -1, Values: slices.Clone(s.values[from:to]),
			})
			counted[s.stream]++
		}
	}
	for i := range (2*len(d.Series) + 2) / 3 {
		d.Series[i].Split = Train
	}
	file, err := src.provenance()
	if err != nil {
		return nil, err
	}
	d.Source.Files = []SourceFile{file}
	if err := d.Validate(); err != nil {
		return nil, InContent(err)
	}
	return d, nil
}

// ended is the samples of a stream up to an end.
type ended struct {
	stream string
	values []float32 // samples x channels
}

// sequences reads the whole recording.
func (r *csvReader) sequences() ([]ended, error) {
	var all []ended
	open := map[string]int{} // the stream's sequence that has not ended
	var c RecordingChunk
	for {
		c.Reset()
		if err := r.next(&c, 4096); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if err := r.src.take(len(c.Values)); err != nil {
			return nil, err
		}
		n := len(r.channels)
		for i, stream := range c.Stream {
			at, ok := open[stream]
			if !ok {
				at = len(all)
				all = append(all, ended{stream: stream})
				open[stream] = at
			}
			all[at].values = append(all[at].values, c.Values[i*n:(i+1)*n]...)
			if c.End[i] {
				delete(open, stream)
			}
		}
	}
}
