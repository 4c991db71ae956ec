package imports

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/timeunit"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// RecordingImport configures the conversion of tables to a recording archive.
type RecordingImport struct {
	Path  string // the table, a folder of tables or a pattern; files may be compressed with gzip
	Out   string // the archive to write
	Dry   bool   // only read: Out is not written
	Name  string // empty: the file's name up to the first dot
	Table Table
	// Tool, License and Note are stored in the provenance.
	Tool, License, Note string
}

// RecordingSummary counts a recording.
type RecordingSummary struct {
	Rows     int64                `json:"rows"` // samples
	Streams  int                  `json:"streams"`
	Ends     int64                `json:"ends"`    // number of sequence ends
	Missing  int64                `json:"missing"` // NaN values
	Channels []string             `json:"channels"`
	Columns  []string             `json:"columns"`          // the other columns of the archive
	Target   string               `json:"target,omitempty"` // column of the numbers to learn
	Files    []archive.SourceFile `json:"files"`
	Table    TableSummary         `json:"table"`
}

// TableSummary describes the tables of a recording.
type TableSummary struct {
	Delimiter string           `json:"delimiter,omitempty"`
	Decimal   string           `json:"decimal,omitempty"`
	Header    bool             `json:"header"`
	TimeUnit  string           `json:"time_unit,omitempty"` // of times that are numbers
	Dates     string           `json:"dates,omitempty"`     // order of dates such as 31/01/2026
	From      int64            `json:"from,omitempty"`      // first time, ns since 1970
	To        int64            `json:"to,omitempty"`        // last time
	Rate      float64          `json:"rate,omitempty"`      // Hz, of the first stream
	Irregular float64          `json:"irregular,omitempty"` // share of intervals unlike the usual interval
	Labels    map[string]int64 `json:"labels,omitempty"`    // samples of each label; "": none
	Columns   []Column         `json:"columns"`
	Notes     []string         `json:"notes,omitempty"`
	Warnings  []string         `json:"warnings,omitempty"`

	table Table
}

// ImportRecording converts tables to a recording archive, a few thousand samples at a time:
// memory grows with the number of streams, not of samples, except for tables with a row
// for each value. After an error, Out is unchanged. progress counts bytes of the files.
func ImportRecording(ctx context.Context, in RecordingImport, progress archive.Progress) (RecordingSummary, error) {
	var sum RecordingSummary
	r, err := openTables(ctx, in.Path, in.Table, progress)
	if err != nil {
		return sum, err
	}
	defer r.close()
	sum.Target = r.targetName()
	info := archive.RecordingInfo{Name: in.Name, Channels: r.Channels, Target: sum.Target, Group: r.groupName()}
	if info.Name == "" {
		info.Name, _ = splitName(in.Path)
	}
	w, err := archive.WriteRecording(in.Out, info)
	if err != nil {
		return sum, err
	}
	if err := sum.copyAll(w, r); err != nil {
		w.Abort()
		return sum, err
	}
	w.Meta = map[string]string{archive.KeyTimeUnit: "ns"} // the archive's unit is known to be intended
	w.Source = archive.Provenance{Files: sum.Files, Format: "csv", Tool: in.Tool, License: in.License, Note: in.Note}
	if in.Dry {
		w.Abort()
		return sum, nil
	}
	return sum, w.Close()
}

// copyAll copies all samples and counts them.
func (s *RecordingSummary) copyAll(w *archive.RecordingWriter, r *tableSet) error {
	var c archive.RecordingChunk
	for {
		c.Reset()
		err := r.readSamples(&c, chunkRows)
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
	return s.describeSet(r)
}

// describeSet describes the tables after the last sample.
func (s *RecordingSummary) describeSet(r *tableSet) error {
	if s.Rows == 0 {
		if r.t.Samples != "" && len(r.streams) > 0 {
			return datafile.InContent(fmt.Errorf("%s: no stream has a sample of the range %s", r.files[0].path, r.t.Samples))
		}
		return datafile.InContent(fmt.Errorf("%s: no samples after the header line", r.files[0].path))
	}
	form, err := r.finishAll()
	if err != nil {
		return err
	}
	for _, of := range r.streams {
		if of.rows >= r.kept.from {
			s.Streams++
		}
	}
	s.Channels, s.Files = r.Channels, r.sources
	s.Columns = []string{kindStream}
	for _, kind := range []string{kindSeq, kindTime, kindEnd, kindLabel} {
		if r.columnOf(kind) != nil {
			s.Columns = append(s.Columns, kind)
		}
	}
	if (r.rule != nil || r.runs != nil && r.runs.label != nil) && !slices.Contains(s.Columns, kindLabel) {
		s.Columns = append(s.Columns, kindLabel)
	}
	for _, name := range []string{r.targetName(), r.groupName()} {
		if name != "" {
			s.Columns = append(s.Columns, name)
		}
	}
	slices.Sort(s.Columns)
	s.Table, err = r.summarize(form)
	return err
}

// finishAll ends the reading, and returns the form of the last file.
func (s *tableSet) finishAll() (form dialect, err error) {
	if r, ok := s.reader.(*csvReader); ok {
		form, _ = r.rows.form()
	}
	files, err := s.reader.finishRead()
	s.sources = append(s.sources, files...)
	if name := s.t.column(kindLabel); err == nil && name != "" && s.columnOf(kindLabel) == nil && (s.runs == nil || s.runs.label == nil) {
		err = datafile.InContent(fmt.Errorf("offline: no file has a column %q, which is to be the label", names.Cut(name, 40)))
	}
	if err == nil && s.runs != nil && s.runs.rows != len(s.streams) {
		err = datafile.InContent(fmt.Errorf("%s has %d rows, want one for each of %d streams", s.runs.name, s.runs.rows, len(s.streams)))
	}
	return form, err
}

// absurdRate is the rate in Hz above which numbers since an unknown origin have probably
// another unit than nanoseconds.
const absurdRate = 1e6

// summarize describes the tables.
func (s *tableSet) summarize(form dialect) (TableSummary, error) {
	t := TableSummary{Header: form.header, Columns: s.columns, Notes: s.notes, table: s.t, Delimiter: form.name()}
	if form.decimal != 0 {
		t.Decimal = string(form.decimal)
	}
	for i := range s.columns {
		if s.columns[i].Kind == kindChannel {
			s.columns[i].Profile.grade()
		}
	}
	if len(s.labels) > 1 || s.labels[""] == 0 {
		t.Labels = s.labels
	}
	if !s.pace.timed {
		return t, nil
	}
	err := s.describeTimes(&t)
	return t, err
}

// describeTimes adds the times to a description, and refuses an absurd rate.
func (s *tableSet) describeTimes(t *TableSummary) error {
	k := s.clock
	t.From, t.To = s.pace.first, s.pace.end
	t.Rate, t.Irregular = s.pace.rate()
	if k.numbers {
		t.TimeUnit = cmp.Or(k.unit, "ns")
	}
	if t.Dates = k.dates; k.local {
		t.Notes = append(t.Notes, "times without an offset are read as "+cmp.Or(s.t.Zone, "UTC"))
	}
	if t.Rate > absurdRate && k.numbers && !k.given && k.unit == "" {
		return datafile.InContent(fmt.Errorf("%s: the times are numbers of an unknown unit, and in nanoseconds the sampling rate is %.4g Hz: specify the unit (import --time-unit), or leave the column out (import --ignore)", s.files[0].path, t.Rate))
	}
	switch {
	case t.Rate > 0 && (t.Rate > absurdRate || t.Rate < timeunit.LowestRate):
		t.Warnings = append(t.Warnings, fmt.Sprintf("the sampling rate is %.4g Hz: check the unit of the times (--time-unit)", t.Rate))
	case t.Rate == 0 && len(s.pace.differences) > 0:
		t.Warnings = append(t.Warnings, "most times equal the time before: the sampling rate is unknown")
	}
	if t.Irregular > .05 {
		t.Warnings = append(t.Warnings, fmt.Sprintf("%.0f %% of the intervals between samples differ from the usual interval by more than half", 100*t.Irregular))
	}
	if s.pace.backward > 0 {
		t.Warnings = append(t.Warnings, fmt.Sprintf("times of stream %q that are earlier than the previous time: %d; sort the rows by time", s.pace.stream, s.pace.backward))
	}
	return nil
}
