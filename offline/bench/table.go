package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteTable writes cells beside the published figures, for people. Of the
// search it shows the chosen number of units beside the paper's, and where they
// differ how far the best configuration with the paper's number was behind on
// the validation part.
func WriteTable(w io.Writer, st *Store, cells []Cell) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	bank := st.settings.Protocol == Bank
	head := []string{"data set", "model", "accuracy", "paper", "difference", "in paper's sd"}
	if bank {
		head = append(head, Classifiers...)
	} else {
		head = append(head, "units", "paper", "validation", "search s")
	}
	fmt.Fprintln(t, strings.Join(append(head, "s a draw", "within"), "\t"))
	for _, c := range cells {
		row := append([]string{c.Dataset, c.Model, fmt.Sprintf("%.3f ± %.3f", c.Accuracy, c.Deviation)}, st.beside(c)...)
		if bank {
			for _, name := range Classifiers {
				row = append(row, figure(Archive(c.Dataset, name)))
			}
		} else {
			row = append(row, st.search(c)...)
		}
		fmt.Fprintln(t, strings.Join(append(row, fmt.Sprintf("%.2f", c.Seconds), st.verdict(c)), "\t"))
	}
	return t.Flush()
}

func figure(v float64, ok bool) string {
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.3f", v)
}

// beside is the paper's accuracy and the difference.
func (st *Store) beside(c Cell) []string {
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

// search is what was chosen, and what the paper chose.
func (st *Store) search(c Cell) []string {
	units, paper := fmt.Sprint(c.Config.Units), "-"
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
	case v.Within:
		return "yes"
	}
	return "NO"
}
