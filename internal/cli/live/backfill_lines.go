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

// writesLines reports whether a file of that name gets lines of JSON or of CSV.
func writesLines(path string) bool {
	return isJSONLines(path) || filepath.Ext(strings.ToLower(path)) == ".csv"
}

func isJSONLines(path string) bool {
	ext := filepath.Ext(strings.ToLower(path))
	return ext == ".jsonl" || ext == ".ndjson"
}

// linesFor is how predictions are written to a file of that name, and how the file begins.
func linesFor(path string, says says) (head []byte, line func([]byte, pipeline.BackfillPrediction) ([]byte, error)) {
	if isJSONLines(path) {
		return nil, jsonLine
	}
	columns := columnsOf(says)
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return []byte(strings.Join(names, ",") + "\n"), func(dst []byte, p pipeline.BackfillPrediction) ([]byte, error) {
		return csvLine(dst, columns, &p)
	}
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

func csvLine(dst []byte, columns []column, p *pipeline.BackfillPrediction) ([]byte, error) {
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

// column is one of a CSV file of predictions. Its text is empty where a prediction has
// nothing to say.
type column struct {
	name string
	text func(p *pipeline.BackfillPrediction) string
}

// says is what a model's predictions have beside class and score.
type says struct{ sets, novelty, inputs, change, numbers bool }

// columnsOf are what all predictions have, then what some add.
func columnsOf(s says) []column {
	all := []column{
		{"stream", func(p *pipeline.BackfillPrediction) string { return p.Stream }},
		{"time", func(p *pipeline.BackfillPrediction) string {
			if p.Time == codec.NoTime {
				return ""
			}
			return timeText(time.Unix(0, p.Time))
		}},
		{"class", func(p *pipeline.BackfillPrediction) string { return p.Labels[p.Class] }},
		number("probability", func(p *pipeline.BackfillPrediction) (float32, bool) { return p.Probability, p.Probability != 0 }),
		number("score", func(p *pipeline.BackfillPrediction) (float32, bool) { return p.Score, true }),
		{"integrity", func(p *pipeline.BackfillPrediction) string { return p.Flags.Integrity() }},
		{"flags", func(p *pipeline.BackfillPrediction) string { return p.Flags.String() }},
		{"seq", func(p *pipeline.BackfillPrediction) string { return strconv.FormatUint(p.Seq, 10) }},
		{"row", func(p *pipeline.BackfillPrediction) string { return strconv.FormatUint(uint64(p.Row), 10) }},
		{"input", func(p *pipeline.BackfillPrediction) string {
			if p.Stored.IsZero() { // of a file
				return ""
			}
			return strconv.FormatUint(p.Input, 10)
		}},
		{"received", func(p *pipeline.BackfillPrediction) string {
			if p.Stored.IsZero() {
				return ""
			}
			return timeText(p.Stored)
		}},
		{"scores", scoresText},
	}
	if s.sets {
		all = append(all, column{"set", setText})
	}
	if s.novelty {
		all = append(all,
			number("novelty", func(p *pipeline.BackfillPrediction) (float32, bool) { return p.Novelty, p.NoveltyP != 0 }),
			number("novelty_p", func(p *pipeline.BackfillPrediction) (float32, bool) { return p.NoveltyP, p.NoveltyP != 0 }))
	}
	if s.inputs {
		all = append(all, column{"inputs", inputsText})
	}
	if s.change {
		all = append(all, number("change", func(p *pipeline.BackfillPrediction) (float32, bool) { return p.Change, p.Change != 0 }))
	}
	if s.numbers {
		all = append(all,
			number("value", func(p *pipeline.BackfillPrediction) (float32, bool) { return p.Number.Value, p.Number.Known }),
			number("low", func(p *pipeline.BackfillPrediction) (float32, bool) { return p.Number.Low, p.Number.Known }),
			number("high", func(p *pipeline.BackfillPrediction) (float32, bool) { return p.Number.High, p.Number.Known }))
	}
	return all
}

func number(name string, of func(p *pipeline.BackfillPrediction) (v float32, known bool)) column {
	return column{name, func(p *pipeline.BackfillPrediction) string {
		v, known := of(p)
		if !known {
			return ""
		}
		return floatText(v)
	}}
}

// floatText is the shortest text that gives v back.
func floatText(v float32) string { return strconv.FormatFloat(float64(v), 'g', -1, 32) }

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func scoresText(p *pipeline.BackfillPrediction) string {
	scores := make([]string, len(p.Scores))
	for i, v := range p.Scores {
		scores[i] = floatText(v)
	}
	return strings.Join(scores, " ")
}

// inputsText is a JSON array, as that of set.
func inputsText(p *pipeline.BackfillPrediction) string {
	if p.Inputs == nil {
		return ""
	}
	b, err := json.Marshal(finiteOnes(p.Inputs))
	if err != nil { // finite numbers are always JSON
		return ""
	}
	return string(b)
}

// setText is a JSON array, for a name may hold whatever would stand between names.
func setText(p *pipeline.BackfillPrediction) string {
	set := setNames(p.Prediction, p.Labels)
	if set == nil {
		return ""
	}
	b, err := json.Marshal(set)
	if err != nil { // texts are always JSON
		return ""
	}
	return string(b)
}
