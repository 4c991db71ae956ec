package live

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// backfillLine is a prediction of old data: a line of tail, but for the message
// that made it in the place of when the prediction was stored.
type backfillLine struct {
	PredictionLine
	Input    uint64     `json:"input,omitempty"`    // number of the message in the job's log
	Received *time.Time `json:"received,omitempty"` // when the server stored that
}

// backfillColumns are those of a CSV file.
var backfillColumns = []string{"stream", "time", "class", "probability", "score", "integrity", "flags", "seq", "row", "input", "received", "scores"}

// linesFor is how predictions are written to a file of that name, and how the file
// begins; nil for a name that says no form.
func linesFor(path string) (head []byte, line func([]byte, pipeline.BackfillPrediction) ([]byte, error)) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".jsonl", ".ndjson":
		return nil, jsonLine
	case ".csv":
		return []byte(strings.Join(backfillColumns, ",") + "\n"), csvLine
	}
	return nil, nil
}

func jsonLine(dst []byte, p pipeline.BackfillPrediction) ([]byte, error) {
	line := backfillLine{PredictionLine: newPredictionLine(p.Prediction, p.Labels), Input: p.Input}
	if !p.Stored.IsZero() {
		t := p.Stored.UTC()
		line.Received = &t
	}
	b, err := json.Marshal(line)
	return append(append(dst, b...), '\n'), err
}

func csvLine(dst []byte, p pipeline.BackfillPrediction) ([]byte, error) {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	number := func(v float32) string { return strconv.FormatFloat(float64(v), 'g', -1, 32) }
	var taken, received, probability, input string
	if p.Time != codec.NoTime {
		taken = at(time.Unix(0, p.Time))
	}
	if !p.Stored.IsZero() {
		received, input = at(p.Stored), strconv.FormatUint(p.Input, 10)
	}
	if p.Probability != 0 { // the model gives one
		probability = number(p.Probability)
	}
	scores := make([]string, len(p.Scores))
	for i, v := range p.Scores {
		scores[i] = number(v)
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	err := w.Write([]string{p.Stream, taken, p.Labels[p.Class], probability, number(p.Score), p.Flags.Integrity(), p.Flags.String(),
		strconv.FormatUint(p.Seq, 10), strconv.FormatUint(uint64(p.Row), 10), input, received, strings.Join(scores, " ")})
	w.Flush()
	return append(dst, b.Bytes()...), err
}
