package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/eusn-stream/eusn-stream/internal/energy"
	"github.com/eusn-stream/eusn-stream/internal/paper"
)

// columns are the columns of table.csv.
var columns = []string{
	"protocol", "dataset", "model", "accuracy", "deviation", "draws",
	"paper_accuracy", "paper_deviation", "difference", "difference_in_larger_deviation", "fixed_tolerance", "tolerance", "verdict",
	"units", "paper_units", "parameters", "seconds", "search_seconds", "configurations", "selected",
	"validation_correct", "validation_of",
	"cpu_wh", "cpu_above_idle_wh", "gpu_wh", "gpu_above_idle_wh",
	"search_cpu_wh", "search_cpu_above_idle_wh", "search_gpu_wh", "search_gpu_above_idle_wh",
	"seed", "command",
}

// csv returns the whole table.
func (r *Report) csv() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(columns) // to memory: cannot fail
	for _, e := range r.entries() {
		_ = w.Write(e.row())
	}
	w.Flush()
	return b.Bytes()
}

func (e *entry) row() []string {
	row := []string{e.section.Title, e.Dataset, e.Model, number(e.Accuracy), number(e.Deviation), strconv.Itoa(e.Cell.Draws)}
	if v := e.Verdict; v != nil {
		row = append(row, number(v.Paper.Accuracy), number(v.Paper.Deviation), number(v.Difference), numberIf(e.inLarger()), number(v.Fixed), number(v.Tolerance), e.verdict().word())
	} else {
		row = append(row, "", "", "", "", "", "", "")
	}
	row = append(row, strconv.Itoa(e.Config.Units), countIf(e.paperUnits()), strconv.Itoa(e.Parameters), number(e.Seconds))
	if e.Configurations > 0 {
		row = append(row, number(e.Searched), strconv.Itoa(e.Configurations), strconv.Itoa(e.Selected), strconv.Itoa(e.Validation.Correct), strconv.Itoa(e.Validation.Of))
	} else {
		row = append(row, "", "", "", "", "")
	}
	for _, a := range []*energy.Amount{e.Energy.CPU, e.Energy.GPU, e.SearchEnergy.CPU, e.SearchEnergy.GPU} {
		if a == nil {
			row = append(row, "", "")
		} else {
			row = append(row, number(a.Gross), number(a.AboveIdle))
		}
	}
	return append(row, strconv.FormatUint(e.section.Seed, 10), e.Command)
}

// number formats a float64 with all significant digits.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func numberIf(v float64, ok bool) string {
	if !ok {
		return ""
	}
	return number(v)
}

func countIf(n int, ok bool) string {
	if !ok {
		return ""
	}
	return strconv.Itoa(n)
}

// inLarger returns the difference to the paper in units of the larger of both standard
// deviations; false if both are zero.
func (e *entry) inLarger() (float64, bool) {
	larger := max(e.Deviation, e.Verdict.Paper.Deviation)
	if larger <= 0 {
		return 0, false
	}
	return e.Verdict.Difference / larger, true
}

// paperUnits returns the paper's choice for this model; the bank has none.
func (e *entry) paperUnits() (int, bool) {
	if e.Verdict == nil || e.Model == paper.BankModel {
		return 0, false
	}
	return e.Verdict.Paper.Units, true
}

// verdict is the result of the comparison with the paper.
type verdict int

const (
	unknown verdict = iota // the paper has no figure
	noYardstick
	within
	byOurs // within, only by our own deviation
	above
	below
)

func (v verdict) word() string {
	return [...]string{"", "no yardstick", "within", "within by our deviation alone", "above", "below"}[v]
}

// sign distinguishes verdicts without colors.
func (v verdict) sign() string { return [...]string{"", "○", "✓", "≈", "▲", "▼"}[v] }

func (e *entry) verdict() verdict {
	switch v := e.Verdict; {
	case v == nil:
		return unknown
	case !v.Gated:
		return noYardstick
	case v.ByOurs:
		return byOurs
	case v.Within:
		return within
	case v.Difference > 0:
		return above
	default:
		return below
	}
}

// line is an object of results.jsonl.
type line struct {
	Section  string         `json:"section"` // protocol, or memory
	Settings paper.Settings `json:"settings"`
	Data     paper.Data     `json:"data"`
	Cell     paper.Cell     `json:"cell"`
	Verdict  *paper.Verdict `json:"verdict,omitempty"`
	Draws    []paper.Draw   `json:"draws"`
}

// jsonl returns all values of each entry.
func (r *Report) jsonl() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, e := range r.entries() {
		if err := enc.Encode(line{e.section.Title, e.section.Settings, e.Data, e.Cell, e.Verdict, e.Draws}); err != nil {
			return nil, fmt.Errorf("report: %s, %s: %w", e.Dataset, e.Model, err)
		}
	}
	return b.Bytes(), nil
}
