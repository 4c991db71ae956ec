package paper

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/eusn-stream/eusn-stream/internal/compare"
	"github.com/eusn-stream/eusn-stream/internal/energy"
)

// WriteTable writes cells and the published figures as text. It shows the chosen number
// of units and the paper's. If they differ, it shows the validation deficit of the best
// configuration with the paper's number. A line below lists test series that no model
// could predict correctly. Energy columns are present only if a cell has energy. The last
// column is the verdict of Judge; "only by our deviation" is outside the fixed tolerance.
func WriteTable(w io.Writer, st *Store, cells []Cell) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	bank := st.settings.Protocol == Bank
	powered := meters(cells)
	head := tableHead(bank, powered)
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, c := range cells {
		if c.Missing != "" {
			row := append([]string{c.Dataset, c.Model, "no result"}, slices.Repeat([]string{"-"}, len(head)-4)...)
			fmt.Fprintln(t, strings.Join(append(row, c.Missing), "\t"))
			continue
		}
		row := append([]string{c.Dataset, c.Model, Spread(c.Accuracy, c.Deviation, c.Draws, 3)}, st.published(c)...)
		if bank {
			for _, name := range Classifiers {
				row = append(row, figure(compare.Published(name).Accuracy(c.Dataset)))
			}
		} else {
			row = append(row, st.chosen(c)...)
		}
		row = append(row, fmt.Sprintf("%.2f", c.Seconds))
		for _, m := range powered {
			if !bank {
				row = append(row, wattHours(m.energy(c.SearchEnergy)))
			}
			row = append(row, wattHours(m.energy(c.Energy)))
		}
		fmt.Fprintln(t, strings.Join(append(row, st.verdict(c)), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return st.writeUnknown(w, cells)
}

// tableHead are the names of the columns.
func tableHead(bank bool, powered []meter) []string {
	head := []string{"data set", "model", "accuracy", "paper", "difference", "in paper's sd"}
	if bank {
		head = append(head, Classifiers...)
	} else {
		head = append(head, "units", "paper", "validation", "search s")
	}
	head = append(head, "s a draw")
	for _, m := range powered {
		if !bank {
			head = append(head, m.name+" search Wh")
		}
		head = append(head, m.name+" Wh a draw")
	}
	return append(head, "within")
}

// writeUnknown writes the test series that no model could predict correctly.
func (st *Store) writeUnknown(w io.Writer, cells []Cell) error {
	for i, c := range cells {
		if d := st.data[c.Dataset]; d.Unknown > 0 && (i == 0 || cells[i-1].Dataset != c.Dataset) {
			if _, err := fmt.Fprintf(w, "%s: %d of %d test series are of classes without a training series and count as wrong\n", c.Dataset, d.Unknown, d.Asked); err != nil {
				return err
			}
		}
	}
	return nil
}

// Spread formats a mean over draws and its standard deviation with a number of digits;
// one draw has no deviation.
func Spread(mean, deviation float64, draws, digits int) string {
	if draws == 1 {
		return fmt.Sprintf("%.*f (one draw)", digits, mean)
	}
	return fmt.Sprintf("%.*f ± %.*f", digits, mean, digits, deviation)
}

// meter is a device whose energy some cell has.
type meter struct {
	name   string
	energy func(energy.Used) *energy.Amount
}

func meters(cells []Cell) (seen []meter) {
	for _, m := range []meter{
		{"CPU", func(u energy.Used) *energy.Amount { return u.CPU }},
		{"GPU", func(u energy.Used) *energy.Amount { return u.GPU }},
	} {
		if slices.ContainsFunc(cells, func(c Cell) bool { return m.energy(c.Energy) != nil || m.energy(c.SearchEnergy) != nil }) {
			seen = append(seen, m)
		}
	}
	return seen
}

// wattHours formats total energy and, in brackets, energy above idle.
func wattHours(a *energy.Amount) string {
	if a == nil {
		return "not measured"
	}
	return fmt.Sprintf("%.3g (%.3g)", a.Gross, a.AboveIdle)
}

func figure(v float64, ok bool) string {
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.3f", v)
}

// published returns the paper's accuracy and the difference.
func (st *Store) published(c Cell) []string {
	v, ok := st.Judge(c)
	if !ok {
		return []string{"-", "-", "-"}
	}
	deviations := "-"
	if v.Paper.Deviation > 0 {
		deviations = fmt.Sprintf("%+.1f", v.Deviations)
	}
	return []string{fmt.Sprintf("%.3f ± %.3f", v.Paper.Accuracy, v.Paper.Deviation), fmt.Sprintf("%+.3f", v.Difference), deviations}
}

// chosen returns the choice of the search, and the choice of the paper.
func (st *Store) chosen(c Cell) []string {
	units, paper := fmt.Sprint(c.Config.Units), "-"
	if c.Config.Layers > 0 {
		units += fmt.Sprintf(" in %d layers", c.Config.Layers)
	}
	validation := fmt.Sprintf("%d/%d", c.Validation.Correct, c.Validation.Of)
	if p, ok := Paper(c.Dataset, c.Model); ok {
		paper = fmt.Sprint(p.Units)
		if p.Units != c.Config.Units && c.AtPaper.Of > 0 {
			paper += fmt.Sprintf(" (%d behind)", c.Validation.Correct-c.AtPaper.Correct)
		}
	}
	if len(c.Tied) > 0 {
		validation += fmt.Sprintf(", %d tied", len(c.Tied))
	}
	return []string{units, paper, validation, fmt.Sprintf("%.1f", c.Searched)}
}

func (st *Store) verdict(c Cell) string {
	v, ok := st.Judge(c)
	switch {
	case !ok:
		return "-"
	case !v.Gated:
		return "no yardstick: " + v.Note
	case v.ByOurs:
		return "yes, by our deviation alone"
	case v.Within:
		return "yes"
	}
	return "NO"
}
