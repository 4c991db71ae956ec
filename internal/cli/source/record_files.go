package source

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/record"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// RecordFiles writes and reads the files of a recording: archives of recorded samples. Reading
// requires neither job nor channels.
type RecordFiles struct {
	Job      string
	Channels []string
}

// Create implements record.Files.
func (f RecordFiles) Create(path string) (record.File, error) {
	w, err := archive.WriteRecording(path, archive.RecordingInfo{
		Name: f.Job, Channels: f.Channels, Recorded: true,
		Source: archive.Provenance{Format: "nats", Tool: cli.ToolName()},
	})
	if err != nil {
		return nil, err
	}
	return &recordFile{w: w}, nil
}

// recordFile is a growing file.
type recordFile struct {
	w     *archive.RecordingWriter
	chunk archive.RecordingChunk
}

func (f *recordFile) Write(r *record.Rows) error {
	c := &f.chunk
	c.Reset()
	c.Stream, c.Seq, c.Time, c.Values, c.End = r.Stream, r.Number, r.Time, r.Values, r.End
	c.Label = slices.Grow(c.Label, r.Len())[:r.Len()] // empty: no labels are known
	o := &c.Origin
	o.Key, o.Flags = r.Key, r.Flags
	for i := range r.Len() {
		o.Input, o.Message, o.Row = append(o.Input, int64(r.Input[i])), append(o.Message, int64(r.Message[i])), append(o.Row, int64(r.Row[i]))
	}
	return f.w.Write(c)
}

func (f *recordFile) Size() int64 { return f.w.Size() }

func (f *recordFile) Close(meta map[string]string) error {
	f.w.Meta = meta
	return f.w.Close()
}

func (f *recordFile) Abort() { f.w.Abort() }

// Read implements record.Files.
func (f RecordFiles) Read(path string, take func(*record.Rows) error) (map[string]string, error) {
	r, err := archive.ReadRecording(path)
	if err != nil {
		return nil, err
	}
	meta, err := f.readChunks(path, r, take)
	return meta, errors.Join(err, r.Close())
}

func (f RecordFiles) readChunks(path string, r *archive.RecordingReader, take func(*record.Rows) error) (map[string]string, error) {
	if !r.Recorded {
		return nil, fmt.Errorf("%s is a recording, but none of eusn-stream record", path)
	}
	var c archive.RecordingChunk
	for take != nil {
		if err := r.Next(&c); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		if err := take(rowsOf(&c)); err != nil {
			return nil, err
		}
	}
	meta := map[string]string{}
	for _, key := range record.Keys {
		if text := r.Meta(key); text != "" {
			meta[key] = text
		}
	}
	return meta, nil
}

func rowsOf(c *archive.RecordingChunk) *record.Rows {
	r := &record.Rows{Stream: c.Stream, Key: c.Origin.Key, Number: c.Seq, Time: c.Time, Values: c.Values, End: c.End, Flags: c.Origin.Flags}
	for i := range c.Rows() {
		r.Input, r.Message = append(r.Input, uint64(c.Origin.Input[i])), append(r.Message, uint64(c.Origin.Message[i]))
		r.Row = append(r.Row, uint32(c.Origin.Row[i]))
	}
	return r
}
