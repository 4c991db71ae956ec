package live

import (
	"bytes"
	"encoding/csv"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// received is the end of a line of old data: the message that led to the prediction,
// instead of the prediction's storage time.
type received struct {
	Input    uint64     `json:"input,omitempty"`    // number of the message in the job's log
	Received *time.Time `json:"received,omitempty"` // time at which the server stored the message
}

// writesLines reports whether a file with that name gets lines of JSON or of CSV.
func writesLines(path string) bool {
	return isJSONLines(path) || filepath.Ext(strings.ToLower(path)) == ".csv"
}

func isJSONLines(path string) bool {
	ext := filepath.Ext(strings.ToLower(path))
	return ext == ".jsonl" || ext == ".ndjson"
}

// linesFor returns the beginning of a file with that name, and the encoder of its
// lines. gives reports the readout's columns.
func linesFor(path string, gives func(outcome.Part) bool) (head []byte, line func([]byte, replay.BackfillPrediction) ([]byte, error)) {
	if isJSONLines(path) {
		return nil, appendJSON
	}
	columns := columnsOf(gives)
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return []byte(strings.Join(names, ",") + "\n"), func(dst []byte, p replay.BackfillPrediction) ([]byte, error) {
		return appendCSV(dst, columns, &p)
	}
}

func appendJSON(dst []byte, p replay.BackfillPrediction) ([]byte, error) {
	end := received{Input: p.Input}
	if !p.Stored.IsZero() {
		t := p.Stored.UTC()
		end.Received = &t
	}
	line, err := jsonLine(&p.Prediction, p.Labels, "", end)
	return append(dst, line...), err
}

func appendCSV(dst []byte, columns []column, p *replay.BackfillPrediction) ([]byte, error) {
	fields := make([]string, len(columns))
	for i, c := range columns {
		fields[i] = c.text(p)
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	err := w.Write(fields)
	w.Flush()
	return append(dst, b.Bytes()...), err
}

// column is a column of a CSV file of predictions. Its text is empty if a prediction
// has no value.
type column struct {
	name string
	text func(p *replay.BackfillPrediction) string
}

// columnsOf returns the columns of all predictions, then the readout's columns.
func columnsOf(gives func(outcome.Part) bool) []column {
	answer := func(c *outcome.Column) column {
		return column{c.Name, func(p *replay.BackfillPrediction) string {
			return outcome.Named{Answer: &p.Answer, Labels: p.Labels}.Text(c)
		}}
	}
	all := []column{
		{"stream", func(p *replay.BackfillPrediction) string { return p.Stream }},
		{"time", func(p *replay.BackfillPrediction) string {
			if p.Time == codec.NoTime {
				return ""
			}
			return timeText(time.Unix(0, p.Time))
		}},
	}
	for _, name := range []string{"class", "probability", "score", "integrity", "flags"} {
		all = append(all, answer(outcome.Lookup(name)))
	}
	all = append(all, []column{
		{"seq", func(p *replay.BackfillPrediction) string { return strconv.FormatUint(p.Seq, 10) }},
		{"row", func(p *replay.BackfillPrediction) string { return strconv.FormatUint(uint64(p.Row), 10) }},
		{"input", func(p *replay.BackfillPrediction) string {
			if p.Stored.IsZero() { // of a file
				return ""
			}
			return strconv.FormatUint(p.Input, 10)
		}},
		{"received", func(p *replay.BackfillPrediction) string {
			if p.Stored.IsZero() {
				return ""
			}
			return timeText(p.Stored)
		}},
		answer(outcome.Lookup("scores")),
	}...)
	for _, c := range outcome.Extras {
		if gives(c.Part) {
			all = append(all, answer(c))
		}
	}
	return all
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
