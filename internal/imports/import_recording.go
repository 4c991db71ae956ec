package imports

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// RecordingImport names a CSV recording and the archive to make of it.
type RecordingImport struct {
	CSV  string // the file to read; may be compressed with gzip
	Out  string // the archive to write
	Name string // empty: the file's name up to the first dot
	// TimeUnit is that of times that are numbers, one of timeunit.Names; empty: ns. Then the
	// first of them is refused if it looks like a time of another unit.
	TimeUnit string
	// Tool, License and Note go into the provenance.
	Tool, License, Note string
}

// RecordingSummary counts a recording.
type RecordingSummary struct {
	Rows     int64              `json:"rows"` // samples
	Streams  int                `json:"streams"`
	Ends     int64              `json:"ends"`    // sequences that end
	Missing  int64              `json:"missing"` // values that are NaN
	Channels []string           `json:"channels"`
	File     archive.SourceFile `json:"file"`
}

// ImportRecording turns a CSV recording into a recording archive, a few
// thousand samples at a time: memory grows with the number of streams, not of
// samples. On an error nothing is left at Out but what was there before.
// progress counts bytes of the file.
func ImportRecording(ctx context.Context, in RecordingImport, progress archive.Progress) (RecordingSummary, error) {
	var sum RecordingSummary
	unlimited := int64(math.MaxInt64) // nothing is kept, so nothing to bound
	src, err := openSource(ctx, in.CSV, &unlimited, progress)
	if err != nil {
		return sum, err
	}
	defer src.close()
	r, err := newCSVReader(src)
	if err == nil {
		err = r.setUnit(in.TimeUnit)
	}
	if err != nil {
		return sum, err
	}
	info := archive.RecordingInfo{Name: in.Name, Channels: r.channels}
	if info.Name == "" {
		info.Name, _ = splitName(in.CSV)
	}
	w, err := archive.WriteRecording(in.Out, info)
	if err != nil {
		return sum, err
	}
	if err := sum.copy(w, r); err != nil {
		w.Abort()
		return sum, err
	}
	if sum.File, err = src.provenance(); err != nil {
		w.Abort()
		return sum, err
	}
	w.Meta = map[string]string{archive.KeyTimeUnit: "ns"} // what the archive has is what was meant
	w.Source = archive.Provenance{Files: []archive.SourceFile{sum.File}, Format: "csv", Tool: in.Tool, License: in.License, Note: in.Note}
	return sum, w.Close()
}

// copy moves all samples and counts them.
func (s *RecordingSummary) copy(w *archive.RecordingWriter, r *csvReader) error {
	const rows = 4096 // enough to make the calls cheap
	var c archive.RecordingChunk
	for {
		c.Reset()
		err := r.next(&c, rows)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := w.Write(&c); err != nil {
			return err
		}
		s.Rows += int64(c.Rows())
		for _, end := range c.End {
			if end {
				s.Ends++
			}
		}
		for _, v := range c.Values {
			if v != v {
				s.Missing++
			}
		}
	}
	s.Streams, s.Channels = len(r.last), r.channels
	if s.Rows == 0 {
		return archive.InContent(fmt.Errorf("%s: no samples after the header line", r.src.name))
	}
	return nil
}
