package imports

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// RecordingImport configures the conversion of a CSV recording to an archive.
type RecordingImport struct {
	CSV  string // the file to read; may be compressed with gzip
	Out  string // the archive to write
	Dry  bool   // only read: Out is not written
	Name string // empty: the file's name up to the first dot
	// TimeUnit is the unit of numeric times, one of timeunit.Names; empty: ns, and then
	// the first time is refused if it seems to have another unit.
	TimeUnit string
	// Tool, License and Note are stored in the provenance.
	Tool, License, Note string
}

// RecordingSummary counts a recording.
type RecordingSummary struct {
	Rows     int64              `json:"rows"` // samples
	Streams  int                `json:"streams"`
	Ends     int64              `json:"ends"`    // number of sequence ends
	Missing  int64              `json:"missing"` // NaN values
	Channels []string           `json:"channels"`
	Columns  []string           `json:"columns"` // the other columns: stream, and those of seq, time, end and label that exist
	File     archive.SourceFile `json:"file"`
}

// ImportRecording converts a CSV recording to a recording archive, a few thousand samples
// at a time: memory grows with the number of streams, not of samples. After an error, Out
// is unchanged. progress counts bytes of the file.
func ImportRecording(ctx context.Context, in RecordingImport, progress archive.Progress) (RecordingSummary, error) {
	var sum RecordingSummary
	unlimited := int64(math.MaxInt64) // no data are kept, so no limit is needed
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
	if err := sum.copyAll(w, r); err != nil {
		w.Abort()
		return sum, err
	}
	if sum.File, err = src.provenance(); err != nil {
		w.Abort()
		return sum, err
	}
	w.Meta = map[string]string{archive.KeyTimeUnit: "ns"} // the archive's unit is known to be intended
	w.Source = archive.Provenance{Files: []archive.SourceFile{sum.File}, Format: "csv", Tool: in.Tool, License: in.License, Note: in.Note}
	if in.Dry {
		w.Abort()
		return sum, nil
	}
	return sum, w.Close()
}

// copyAll copies all samples and counts them.
func (s *RecordingSummary) copyAll(w *archive.RecordingWriter, r *csvReader) error {
	const rows = 4096 // enough for cheap calls
	var c archive.RecordingChunk
	for {
		c.Reset()
		err := r.readSamples(&c, rows)
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
	for name, index := range map[string]int{"stream": r.indexes.stream, "seq": r.indexes.seq, "time": r.indexes.time, "end": r.indexes.end, "label": r.indexes.label} {
		if index >= 0 {
			s.Columns = append(s.Columns, name)
		}
	}
	slices.Sort(s.Columns)
	if s.Rows == 0 {
		return datafile.InContent(fmt.Errorf("%s: no samples after the header line", r.src.name))
	}
	return nil
}
