package imports

import (
	"context"
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// CSVRecording reads a CSV recording from front to back, in chunks of the row group size
// of ImportRecording's archive. It belongs to one goroutine.
type CSVRecording struct {
	Channels []string

	src *source
	r   *csvReader
}

// ReadCSVRecording opens a CSV recording, which may be compressed with gzip, and reads
// its header. The caller closes it. progress counts bytes of the file.
func ReadCSVRecording(ctx context.Context, path string, progress archive.Progress) (*CSVRecording, error) {
	unlimited := int64(math.MaxInt64) // no data are kept, so no limit is needed
	src, err := openSource(ctx, path, &unlimited, progress)
	if err != nil {
		return nil, err
	}
	r, err := newCSVReader(src)
	if err == nil && len(r.channels) == 0 {
		err = datafile.InContent(fmt.Errorf("offline: %s has no column for a channel", path))
	}
	if err != nil {
		src.close()
		return nil, err
	}
	return &CSVRecording{Channels: r.channels, src: src, r: r}, nil
}

// Next replaces the content of c by the next samples, or returns io.EOF after the last.
func (f *CSVRecording) Next(c *archive.RecordingChunk) error {
	c.Reset()
	if err := f.r.readSamples(c, archive.GroupRows(len(f.Channels))); err != nil {
		return err
	}
	if err := c.Check(len(f.Channels), false); err != nil {
		return fmt.Errorf("offline: recording %s: %w", f.src.name, err)
	}
	return nil
}

// Close closes the file.
func (f *CSVRecording) Close() error {
	f.src.close()
	return nil
}
