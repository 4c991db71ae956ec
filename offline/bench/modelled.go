package bench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"text/tabwriter"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// Modelled is how well one model, whose readout sees the input or does not,
// predicts the next sample of one data set.
type Modelled struct {
	Dataset string `json:"dataset"`
	Model   string `json:"model"`
	Input   bool   `json:"input_to_readout"`

	// Of the search.
	Selected       int     `json:"selected"` // index of the configuration
	Config         Scales  `json:"config"`   // its seed is the search's
	Validation     float64 `json:"validation_rmse"`
	Configurations int     `json:"configurations"` // tried
	Searched       float64 `json:"search_seconds"` // of all trials, one thread each

	// Of the draws, fitted to the whole training part.
	Draws     int     `json:"draws"`
	RMSE      float64 `json:"rmse"`      // over the test part, mean over the draws
	Deviation float64 `json:"deviation"` // population standard deviation over the draws
	Repeating float64 `json:"repeating"` // RMSE of predicting that the last sample comes again
	Seconds   float64 `json:"seconds"`   // training and test of one draw, mean
	Command   string  `json:"command,omitempty"`
}

// name is what trials and draws call it.
func (m Modelled) name() string {
	if m.Input {
		return fed(m.Model)
	}
	return m.Model
}

// chooseModelled takes the first of the trials with the least error.
func (st *Results) chooseModelled(m *Modelled) error {
	best := Trial{Index: -1}
	for i := range m.Configurations {
		t, ok := st.trials[key{m.Dataset, m.name(), i}]
		if !ok {
			return fmt.Errorf("bench: %s: data set %q, %s: configuration %d has no result", st.path, m.Dataset, m.name(), i)
		}
		m.Searched += t.Seconds
		if !t.Singular && (best.Index < 0 || t.RMSE < best.RMSE) {
			best = t
		}
	}
	if best.Index < 0 {
		return fmt.Errorf("bench: data set %q, %s: no configuration of %d has a solution: %w", m.Dataset, m.name(), m.Configurations, dense.ErrSingular)
	}
	m.Selected, m.Config, m.Validation = best.Index, best.Config, best.RMSE
	return nil
}

// Modelled is what is summed up of modelling, by data set, then as CompareModels
// says, without the input first.
func (st *Results) Modelled() []Modelled {
	return slices.SortedFunc(maps.Values(st.modelled), func(a, b Modelled) int {
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), CompareModels(a.Model, b.Model), cmp.Compare(len(a.name()), len(b.name())))
	})
}

// DrawsOfModelled are those a result is the mean of.
func (st *Results) DrawsOfModelled(m Modelled) (all []Draw) {
	for i := range m.Draws {
		all = append(all, st.draws[key{m.Dataset, m.name(), i}])
	}
	return all
}

// checkModelled holds what is summed up against its trials and draws.
func (st *Results) checkModelled() error {
	for _, m := range st.Modelled() {
		where := fmt.Sprintf("bench: %s: data set %q, %s", st.path, m.Dataset, m.name())
		if _, ok := st.data[m.Dataset]; !ok {
			return fmt.Errorf("%s: a result of a data set that is not described, want its data line", where)
		}
		if m.Draws < 1 || m.Draws > maxDraws || m.Configurations > MaxModellingConfigurations {
			return fmt.Errorf("%s: %d configurations and %d draws, want at most %d, and 1 to %d", where, m.Configurations, m.Draws, MaxModellingConfigurations, maxDraws)
		}
		want := Modelled{Dataset: m.Dataset, Model: m.Model, Input: m.Input, Configurations: m.Configurations, Draws: m.Draws}
		if err := st.chooseModelled(&want); err != nil {
			return err
		}
		for i, d := range st.DrawsOfModelled(m) {
			if d.Config.Seed = want.Config.Seed; d.Config != want.Config {
				return fmt.Errorf("%s: draw %d is absent, or not of configuration %d, the best: a run with a longer search was stopped", where, i, want.Selected)
			}
		}
		st.sumUp(&want)
		// As in check: also false for what is no number.
		if !(math.Abs(m.RMSE-want.RMSE) <= 1e-12*want.RMSE && math.Abs(m.Deviation-want.Deviation) <= 1e-12*want.RMSE && m.Repeating >= 0) || m.Config != want.Config {
			return fmt.Errorf("%s: the line says RMSE %g, deviation %g, configuration %d; its trials and draws give %g, %g, %d",
				where, m.RMSE, m.Deviation, m.Selected, want.RMSE, want.Deviation, want.Selected)
		}
	}
	return nil
}

// sumUp averages the draws, which must be there.
func (st *Results) sumUp(m *Modelled) {
	n := float64(m.Draws)
	for i := range m.Draws {
		d := st.draws[key{m.Dataset, m.name(), i}]
		m.RMSE += d.RMSE / n
		m.Seconds += d.Seconds / n
	}
	for i := range m.Draws {
		e := st.draws[key{m.Dataset, m.name(), i}].RMSE - m.RMSE
		m.Deviation += float64(e * e)
	}
	m.Deviation = math.Sqrt(m.Deviation / n)
}

// WriteModelled writes results for people.
func WriteModelled(w io.Writer, all []Modelled) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "data set\tmodel\tinput to readout\tRMSE\trepeating\tvalidation\tconfiguration\tsearch s\ts a draw")
	for _, m := range all {
		input := "no"
		if m.Input {
			input = "yes"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.5f\t%.5f\t%d of %d\t%.1f\t%.2f\n", m.Dataset, m.Model, input,
			Spread(m.RMSE, m.Deviation, m.Draws, 5), m.Repeating, m.Validation, m.Selected, m.Configurations, m.Searched, m.Seconds)
	}
	return t.Flush()
}
