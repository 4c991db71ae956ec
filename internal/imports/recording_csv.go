package imports

import (
	"context"
	"fmt"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// CSVRecording reads a CSV recording from front to back, in chunks of the row group size
// of ImportRecording's archive. It belongs to one goroutine.
type CSVRecording struct {
	Channels []string

	path string
	set  *tableSet
}

// ReadCSVRecording opens a CSV recording, which may be compressed with gzip, and reads
// its header. The caller closes it. progress counts bytes of the file.
func ReadCSVRecording(ctx context.Context, path string, progress archive.Progress) (*CSVRecording, error) {
	set, err := openTables(ctx, path, Table{}, progress)
	if err != nil {
		return nil, err
	}
	return &CSVRecording{Channels: set.Channels, path: path, set: set}, nil
}

// Next replaces the content of c by the next samples, or returns io.EOF after the last.
func (f *CSVRecording) Next(c *archive.RecordingChunk) error {
	c.Reset()
	if err := f.set.readSamples(c, archive.GroupRows(len(f.Channels))); err != nil {
		return err
	}
	if err := c.Check(len(f.Channels), false); err != nil {
		return fmt.Errorf("offline: recording %s: %w", f.path, err)
	}
	return nil
}

// Close closes the file.
func (f *CSVRecording) Close() error {
	f.set.close()
	return nil
}
