package models

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/dynamics"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// MaxClassWidth is the maximum number of characters of a class in a table.
const MaxClassWidth = 24

// NewCommand returns the command "model" with its subcommands.
func NewCommand(a *cli.App) *cobra.Command {
	return cli.Group("model", "Show and export model files; publish, try, promote and roll back the models of a job", newModelVerify(a), newModelExport(a))
}

// Load reads a model file.
func Load(path string) (*reservoir.Model, error) {
	if err := cli.WholeFile(path); err != nil {
		return nil, err
	}
	m, err := reservoir.Load(path)
	switch {
	case errors.Is(err, reservoir.ErrModel):
		// No advice with a command that writes to path: the path may be an archive by mistake.
		return nil, cli.Fail(cli.ExitFailure, err, "another file, or train a model with eusn-stream train")
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.Fail(cli.ExitFailure, err, "eusn-stream train DATA --output "+cli.QuoteForShell(path)+"; eusn-stream demo, which trains one on simulated data")
	}
	return m, cli.Fail(cli.ExitFailure, err, "another file")
}

// LoadForStage loads a model and checks that a stage can run it.
func LoadForStage(path string) (*reservoir.Model, error) {
	m, err := Load(path)
	if err != nil {
		return nil, err
	}
	if err := m.CheckLengths(); err != nil {
		return nil, cli.Fail(cli.ExitFailure, fmt.Errorf("model %s: %w", path, err), "eusn-stream train, with the same --policy: the training then uses sequences of that length")
	}
	return m, nil
}

// Report describes a model.
type Report struct {
	Path     string                    `json:"path"`
	SHA256   string                    `json:"sha256"`
	Spec     reservoir.Spec            `json:"spec"`
	Weights  int64                     `json:"weights"`
	RowBytes int                       `json:"bytes_per_state_row"`
	Channels []string                  `json:"channels"`
	Readouts []readoutReport           `json:"readouts"`
	Policy   reservoir.Policy          `json:"policy"`
	Front    *reservoir.Front          `json:"front,omitempty"`
	Training reservoir.Training        `json:"training"`
	Remarks  []reservoir.ChannelRemark `json:"channel_remarks,omitempty"` // about unused or rounded channels
	Modes    *modesReport              `json:"modes,omitempty"`           // decay of the states; absent if members are too large
}

type readoutReport struct {
	Name        string   `json:"name"`
	Classes     []string `json:"classes"`
	Features    int      `json:"features"`
	Temperature float64  `json:"temperature,omitzero"` // of probabilities; 0: unknown

	Coverage *readout.Coverage    `json:"coverage,omitempty"` // of sets of classes; nil: no sets
	Abstain  *readout.AbstainRule `json:"abstain,omitempty"`  // nil: every prediction is an answer
	Early    *readout.EarlyRule   `json:"early,omitempty"`    // nil: no early predictions
	Novelty  *noveltyReport       `json:"novelty,omitempty"`  // nil: no detector
	Random   int                  `json:"random_features,omitzero"`
	Segments bool                 `json:"segments,omitzero"`  // reads only the segments of the front end
	Interval *readout.Interval    `json:"interval,omitempty"` // nil: predicts classes; otherwise predicts a number, named as its only class
}

// Detects reports whether the class is the novelty.
func (h readoutReport) Detects() bool { return h.Novelty != nil && h.Novelty.Detects }

// noveltyReport describes a novelty detector.
type noveltyReport struct {
	Dimensions int     `json:"dimensions"`
	Sequences  int     `json:"sequences"`          // number of sequences for the p-values
	Level      float32 `json:"level"`              // p-values up to this level are novel
	Detects    bool    `json:"detects"`            // whether the readout's class is the novelty
	Inputs     int     `json:"inputs"`             // number of values about the inputs
	ByPlace    bool    `json:"by_place,omitempty"` // residuals are divided by their usual size at their position
	Between    int     `json:"between,omitempty"`  // dimensions between classes

	Later *novelty.Later `json:"later,omitempty"` // measured false alarms on later healthy data; nil: not measured
}

// LaterText describes measured false alarms.
func LaterText(l *novelty.Later) string {
	return fmt.Sprintf("novel in the last third of each healthy run, by a detector of the first two thirds: %.3g %% (%d of %d sequences, %d of them without common samples); promised %.3g %%", 100*l.Share(), l.Novel, l.Sequences, l.Separate, 100*l.Level)
}

// Inspect reads the model file at path and describes it.
func Inspect(path string) (Report, error) {
	m, err := Load(path)
	if err != nil {
		return Report{}, err
	}
	return Describe(m, path)
}

// Describe describes a model with a name.
func Describe(m *reservoir.Model, path string) (Report, error) {
	sum, err := m.Fingerprint()
	if err != nil {
		return Report{}, err
	}
	r := Report{
		Path: path, SHA256: sum, Spec: m.Network.Spec, RowBytes: 4 * engine.LayoutOf(m.Network.Spec).Words,
		Channels: m.Channels, Policy: m.Policy, Front: m.Front, Training: m.Training, Remarks: m.ChannelRemarks(),
	}
	for _, b := range m.Network.Members {
		r.Weights += int64(len(b.Recurrent) + len(b.Input) + len(b.Bias))
	}
	for _, h := range m.Readouts {
		r.Readouts = append(r.Readouts, newReadoutReport(h))
	}
	if modes, err := dynamics.ComputeModes(m.Network); err == nil {
		r.Modes = newModesReport(modes, r)
	}
	return r, nil
}

func newReadoutReport(h *readout.Linear) readoutReport {
	r := readoutReport{Name: h.Name, Classes: h.Classes, Features: h.Features(), Temperature: h.Temperature, Coverage: h.Coverage, Abstain: h.Abstain, Interval: h.Interval, Random: h.Random.Units(), Segments: h.Segments != nil}
	if p := h.Prefixes; p != nil {
		r.Early = &p.Rule
	}
	if d := h.Novelty; d != nil {
		r.Novelty = &noveltyReport{d.Dimensions(), len(d.Left), d.Level, h.Detects, d.InputValues(), d.Usual != nil, d.Between(), d.Later}
	}
	return r
}

// Show prints what a model file holds.
func Show(a *cli.App, path string) error {
	r, err := Inspect(path)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(r)
	}
	Print(a, r)
	return nil
}

// Print prints a report for people.
func Print(a *cli.App, r Report) {
	printNetwork(a, r)
	for _, h := range r.Readouts {
		printReadout(a, h)
	}
	for _, h := range r.Readouts {
		if c := h.Coverage; c != nil {
			printRow(a, "sets", "%s", CoverageText(*c))
		}
		if r := h.Abstain; r != nil {
			printRow(a, "answers", "%s", AnswersText(*r))
		}
		if e := h.Early; e != nil {
			printRow(a, "early", "a prefix is decided where its class changes until the end with a probability of at most %.4g", e.Most)
		}
	}
	if r.Front != nil {
		printRow(a, "front end", "%s", FrontText(r))
	}
	printRow(a, "sequences", "%s", PolicyText(r.Policy))
	if t := r.Training; t.Series > 0 {
		printRow(a, "training", "%s, %d series, %d samples, alpha %s, by %s", t.Dataset, t.Series, t.Samples, t.Alpha, t.Tool)
		if t.MinLength > 0 {
			printRow(a, "lengths", "trained on sequences of %d to %d samples; predictions are flagged beyond half or twice that", t.MinLength, t.MaxLength)
		}
	}
	printChoices(a, r.Training.Choices)
	printRow(a, "rate", "%s", RateText(r))
	printRanges(a, r)
	for _, remark := range r.Remarks {
		printRow(a, "warning", "%s", RemarkText(remark))
	}
}

// printChoices prints the settings that the training compared.
func printChoices(a *cli.App, choices []reservoir.Choice) {
	for i, c := range choices {
		name, mark := "", ""
		if i == 0 {
			name = "search"
		}
		if c.Chosen {
			mark = "  <- chosen"
		}
		printRow(a, name, "error %.4g +- %.2g of %d, cost %.3g: %s%s", c.Error, c.Deviation, c.Sequences, c.Cost, c.Settings, mark)
	}
}

func printRow(a *cli.App, name, format string, args ...any) {
	a.Print("%-10s "+format, append([]any{name}, args...)...)
}

func printNetwork(a *cli.App, r Report) {
	s := r.Spec
	printRow(a, "model", "%s", r.Path)
	printRow(a, "sha256", "%s", r.SHA256)
	printRow(a, "reservoir", "%s, %d x %d units, %d weights, seed %d, %s", s.Kind, s.Members, s.Units, r.Weights, s.Seed, s.Precision)
	if t := s.Taps; s.Kind == reservoir.Mixed {
		printRow(a, "taps", "%d of each of %d members, lags of 0 to %d samples; activation %s", t.Count, t.Members, t.MaxLag, t.Activation)
	}
	printRow(a, "input", "%s; standardize %v, difference %v", ListText(r.Channels), s.Standardize, s.Difference)
	printRow(a, "features", "%d: %v of each unit", s.FeatureCount(), s.Features)
	printRow(a, "memory", "%d bytes per state row, %d row(s) per stream", r.RowBytes, r.Policy.States())
	if r.Modes != nil {
		printRow(a, "forgetting", "%s", forgettingText(r))
	}
}

func printReadout(a *cli.App, h readoutReport) {
	if v := h.Interval; v != nil {
		printRow(a, "readout", "%s: a number: %s", h.Name, ListText(h.Classes))
		if v.Cap != nil {
			printRow(a, "", "numbers above %v were learned as %v", *v.Cap, *v.Cap)
		}
		if c := v.Clip; c != nil {
			printRow(a, "", "values and intervals are limited to %v to %v, the range of the training", c[0], c[1])
		}
		if h.Random > 0 {
			printRow(a, "", "of %d random features", h.Random)
		}
		printRow(a, "interval", "from %.4g to %+.4g about the value, which holds %.4g %% of the true numbers, as leave-one-out or labels have shown", v.Low, v.High, 100*v.Level)
	} else {
		printRow(a, "readout", "%s: %d classes: %s", h.Name, len(h.Classes), ListText(h.Classes))
	}
	if h.Segments {
		printRow(a, "", "of segments of the sequence, not of the network")
	}
	switch {
	case h.Detects() || h.Interval != nil: // such readouts have none
	case h.Temperature > 0:
		printRow(a, "", "probabilities at temperature %.4g", h.Temperature)
	default:
		printRow(a, "", "no probabilities: the model has no temperature")
	}
	if n := h.Novelty; n != nil {
		suffix := ""
		if n.Detects {
			suffix = "; its class is whether it is novel"
		}
		if n.Inputs > 0 {
			suffix += "; level, spread and pace of each channel"
		}
		if n.ByPlace {
			suffix += "; compared with what is usual at its place"
		}
		if n.Between > 0 {
			suffix += fmt.Sprintf("; %d of the dimensions between classes", n.Between)
		}
		printRow(a, "novelty", "%d dimensions, from %d sequences; novel at a p-value of at most %.3g%s", n.Dimensions, n.Sequences, n.Level, suffix)
		if n.Later != nil {
			printRow(a, "later", "%s", LaterText(n.Later))
		}
	}
}

// printRanges prints the range of each channel in the training.
func printRanges(a *cli.App, r Report) {
	if len(r.Training.Inputs) == 0 {
		printRow(a, "ranges", "not in the model: no prediction is flagged as out-of-range or flat; train again to add them")
	}
	for i, in := range r.Training.Inputs {
		name := ""
		if i == 0 {
			if name = "ranges"; r.Front != nil {
				printRow(a, name, "of the samples before the front end")
				name = ""
			}
		}
		if in.Values == 0 {
			printRow(a, name, "%s: no value", r.Channels[i])
			continue
		}
		printRow(a, name, "%s: %.4g to %.4g, mean %.4g, deviation %.4g, longest constant run %d samples", r.Channels[i], in.Min, in.Max, in.Mean, in.Deviation, in.LongestRun)
	}
}

// RemarkText formats a remark on a channel for people.
func RemarkText(r reservoir.ChannelRemark) string {
	if r.Unused {
		return fmt.Sprintf("channel %s is left out: %s", r.Channel, r.Reason)
	}
	return fmt.Sprintf("channel %s is rounded: %s", r.Channel, r.Reason)
}

// RateText describes the sampling rate of a model's training, and the resulting reach of its
// lags.
func RateText(r Report) string {
	t := r.Training
	if t.Rate == 0 {
		return "not in the model: no prediction is flagged for its sampling rate; train again on samples with times, or with --sample-rate"
	}
	text := fmt.Sprintf("trained at %g Hz", t.Rate)
	if t.LongestInterval > 0 {
		text += fmt.Sprintf(", at most %s s between two samples", formatSeconds(float64(t.LongestInterval)/1e9))
	}
	if s := r.Spec; s.Kind == reservoir.Mixed {
		text += fmt.Sprintf("; lags reach back %s s", formatSeconds(float64(s.Taps.MaxLag)*float64(samplesPerRow(r.Front))/t.Rate))
	}
	if t.MaxLength > 0 {
		text += fmt.Sprintf("; sequences of %s to %s s", formatSeconds(float64(t.MinLength)/t.Rate), formatSeconds(float64(t.MaxLength)/t.Rate))
	}
	return text
}

func formatSeconds(s float64) string { return strconv.FormatFloat(s, 'g', 4, 64) }

// CoverageText describes the sets of classes of a readout.
func CoverageText(c readout.Coverage) string {
	sequences := "all sequences"
	if c.ByClass {
		sequences = "those of each class"
	}
	text := fmt.Sprintf("the true class is in the set of %.4g %% of %s, seen in leave-one-out", 100*c.Level, sequences)
	if c.Adapted != 0 {
		text += fmt.Sprintf("; adapted by labels, to what was %.4g %%", 100*c.Adapted)
	}
	return text
}

// AnswersText describes which predictions of a readout are answers.
func AnswersText(r readout.AbstainRule) string {
	if r.Above >= 1 {
		return fmt.Sprintf("none: every prediction abstains, for the training did not show an error of at most %.4g %%", 100*r.MaxError)
	}
	return fmt.Sprintf("where the probability is above %.4g: at most %.4g %% of these are wrong, with a confidence of %.4g %%; the others abstain", r.Above, 100*r.MaxError, 100*r.Confidence)
}

// ListText lists the first of many names, each with the width of a table.
func ListText(list []string) string {
	const limit = 60
	var shown []string
	for _, s := range list[:min(limit, len(list))] {
		shown = append(shown, names.Cut(s, MaxClassWidth))
	}
	if len(list) > limit {
		shown = append(shown, fmt.Sprintf("... (%d in all)", len(list)))
	}
	return strings.Join(shown, ", ")
}

// PolicyText describes in words how a policy ends sequences.
func PolicyText(p reservoir.Policy) string {
	text := string(p.Kind)
	switch p.Kind {
	case reservoir.Window:
		text = fmt.Sprintf("window of %d samples every %d", p.Length, p.Hop)
	case reservoir.Count:
		text = fmt.Sprintf("count: every %d samples", p.Length)
	case reservoir.Gap:
		text = fmt.Sprintf("gap: after %v of silence", p.Gap)
	}
	if p.Early > 0 {
		text += fmt.Sprintf(", early predictions every %d samples", p.Early)
	}
	return text
}
