package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/energy"
	"github.com/eusn-stream/eusn-stream/internal/paper"
)

// view returns an entry as text.
func (e *entry) view() *cellView {
	c := e.Cell
	v := &cellView{
		Section: e.section.Title, Dataset: c.Dataset, Model: displayName(c.Model),
		Accuracy: paper.Spread(c.Accuracy, c.Deviation, c.Draws, 3), Units: strconv.Itoa(c.Config.Units), Parameters: strconv.Itoa(c.Parameters),
		Seconds: seconds(c.Seconds), Energy: wattHours(c.Energy), SearchEnergy: wattHours(c.SearchEnergy),
		Config: e.config(), Seeds: e.seeds(), Accuracies: e.accuracies(), Command: strings.Split(c.Command, " "),
	}
	if c.Configurations > 0 {
		v.Search = seconds(c.Searched)
		v.Validation = fmt.Sprintf("%d/%d", c.Validation.Correct, c.Validation.Of)
		if len(c.Tied) > 0 {
			v.Validation += fmt.Sprintf(", %d tied", len(c.Tied))
		}
	} else { // the bank: no choice
		v.SearchEnergy, v.Units = "", fmt.Sprintf("members of %d", e.Draws[0].Config.Units)
	}
	if c.Command == "" {
		v.Command = nil
	}
	if e.Verdict != nil {
		e.addPaper(v)
	}
	return v
}

// addPaper adds the paper's figures.
func (e *entry) addPaper(v *cellView) {
	p := e.Verdict.Paper
	v.Paper = paper.Spread(p.Accuracy, p.Deviation, 0, 3)
	v.Difference = signed(e.Verdict.Difference, 3)
	if d, ok := e.inLarger(); ok {
		v.Difference += ", " + signed(d, 1) + " sd"
	}
	v.Sign, v.Class, v.Verdict = e.verdict().sign(), strings.ReplaceAll(e.verdict().word(), " ", "-"), e.verdict().word()
	if e.verdict() == noYardstick {
		v.Verdict += ": " + e.Verdict.Note
	} else {
		v.Verdict += fmt.Sprintf(", tolerance %.3f", e.Verdict.Tolerance)
		if e.Verdict.ByOurs {
			v.Verdict += fmt.Sprintf(" (%.3f by the paper's figures alone)", e.Verdict.Fixed)
		}
	}
	v.PaperSeconds, v.PaperSearch = seconds(60*p.Minutes), seconds(60*p.SearchMinutes)
	if units, ok := e.paperUnits(); ok {
		v.PaperUnits = strconv.Itoa(units)
		if units != e.Config.Units && e.AtPaper.Of > 0 {
			v.PaperUnits += fmt.Sprintf(" (%d behind)", e.Validation.Correct-e.AtPaper.Correct)
			if e.Validation.Correct == e.AtPaper.Correct {
				v.PaperUnits = strconv.Itoa(units) + " (tied)"
			}
		}
	}
}

// config returns the chosen configuration; unused zero values are left out.
func (e *entry) config() string {
	c := e.Config
	switch {
	case e.Configurations > 0:
	case e.section.Protocol == paper.Compare:
		return "the bank " + e.Model
	default:
		return "the default bank"
	}
	parts := []string{fmt.Sprintf("index %d of the first %d", e.Selected, e.Configurations), fmt.Sprintf("units %d", c.Units)}
	add := func(name string, v float64) {
		if v != 0 {
			parts = append(parts, name+" "+number(v))
		}
	}
	add("layers", float64(c.Layers))
	add("eps", c.Eps)
	add("gamma", c.Gamma)
	add("recurrent scale", c.Recurrent)
	add("spectral radius", c.SpectralRadius)
	add("leak", c.Leak)
	add("input scale", c.Input)
	add("bias scale", c.Bias)
	add("learning rate", e.Training.Rate)
	add("batch", float64(e.Training.Batch))
	add("epochs at most", float64(e.Training.Epochs))
	return strings.Join(parts, ", ")
}

// seeds returns the seeds of the weights.
func (e *entry) seeds() string {
	var parts []string
	if e.Configurations > 0 {
		parts = append(parts, fmt.Sprintf("search %d", e.Config.Seed))
	}
	first, last := e.Draws[0].Config.Seed, e.Draws[len(e.Draws)-1].Config.Seed
	if first == last {
		return strings.Join(append(parts, fmt.Sprintf("draw %d", first)), "; ")
	}
	return strings.Join(append(parts, fmt.Sprintf("draws %d to %d", first, last)), "; ")
}

// accuracies returns the accuracies of the draws.
func (e *entry) accuracies() string {
	var all []string
	for _, d := range e.Draws {
		all = append(all, fmt.Sprintf("%.3f", d.Test.Accuracy()))
	}
	return strings.Join(all, " ")
}

// wattHours returns the energy of each measured device, in total and above rest.
func wattHours(u energy.Used) string {
	var parts []string
	add := func(device string, a *energy.Amount) {
		if a != nil {
			parts = append(parts, fmt.Sprintf("%s %.3g (%.3g)", device, a.Gross, a.AboveIdle))
		}
	}
	add("CPU", u.CPU)
	add("GPU", u.GPU)
	if parts == nil {
		return "not measured"
	}
	return strings.Join(parts, ", ")
}

func share(v float64, ok bool) string {
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%.3f", v)
}

// signed formats a number with a plus or a minus of the same width.
func signed(v float64, digits int) string {
	s := strconv.FormatFloat(math.Abs(v), 'f', digits, 64)
	if v < 0 {
		return "−" + s
	}
	return "+" + s
}

// seconds formats seconds with three digits.
func seconds(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
