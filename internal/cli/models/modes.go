package models

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/dynamics"
)

// modesReport describes the decay of a network's states near zero (package dynamics).
type modesReport struct {
	dynamics.Modes
	HalfSeconds float64 `json:"half_seconds,omitzero"` // converted with the model's rate; 0: unknown, or no decay
	MostSeconds float64 `json:"nine_of_ten_seconds,omitzero"`
}

func newModesReport(m dynamics.Modes, r Report) *modesReport {
	report := &modesReport{Modes: m}
	if rate := r.Training.Rate; rate > 0 {
		second := rate / float64(samplesPerRow(r.Front)) // inputs of the network
		report.HalfSeconds, report.MostSeconds = m.Half/second, m.Most/second
	}
	return report
}

// forgettingText describes in words how long states remember.
func forgettingText(r Report) string {
	m := r.Modes
	text := fmt.Sprintf("effective spectral radius %.6g", m.Radius)
	length := func(samples, s float64) string {
		if s == 0 {
			return fmt.Sprintf("%.3g samples", samples)
		}
		return fmt.Sprintf("%.3g samples (%.3g s)", samples, s)
	}
	if falling := m.Count - m.Held; falling > 0 {
		text += fmt.Sprintf("; %d modes fall to 1/e: half of them within %s, nine of ten within %s", falling, length(m.Half, m.HalfSeconds), length(m.Most, m.MostSeconds))
	}
	if m.Held > 0 {
		text += fmt.Sprintf("; %d do not fall near zero", m.Held)
	}
	return text
}
